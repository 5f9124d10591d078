import { version } from "../../contract/version.js";
import type { Config } from "../config/schema.js";
import type { Service } from "../service.js";

/** The one line of `uis serve --json`. */
export function readyLine({ addresses, firstKey, parts, config }: Service): object {
  return {
    event: "ready",
    version,
    api: `${addresses.http}/v1`,
    grpc: addresses.grpc,
    ops: addresses.ops,
    dashboard: null,
    api_key:
      firstKey === null
        ? null
        : {
            id: firstKey.record.id,
            name: firstKey.record.name,
            scope: firstKey.record.scope,
            secret: firstKey.secret,
          },
    models: config.models.map((model) => model.id),
    data_dir: config.data_dir,
    state: parts.state.kind,
  };
}

/** The same facts for people, with a first request that works as it stands. */
export function readyText(service: Service): string {
  const { addresses, firstKey, config } = service;
  const lines = [
    `Unified Inference ${version} is ready.`,
    "",
    `  API    ${addresses.http}/v1`,
    `  gRPC   ${addresses.grpc}`,
    `  Ops    ${addresses.ops}`,
    `  Data   ${config.data_dir}${config.state.durability === "none" ? " (keys are kept in memory only)" : ""}`,
  ];
  if (firstKey !== null) lines.push(`  Key    ${firstKey.secret}   (shown this once)`);
  lines.push("", ...nextStep(service), "", "Stop it with Ctrl-C.", "");
  return lines.join("\n");
}

function nextStep({ addresses, firstKey, config }: Service): string[] {
  const model = firstChatModel(config);
  if (model === null) {
    return [
      "No chat model is configured. Put this into uis.yaml and start again:",
      "",
      "  models:",
      "    - id: test-chat",
      "      engine: scripted",
      '      scripted: { text: "Hello." }',
    ];
  }
  const trust = config.server.tls.cert_file === null ? "" : `--cacert ${quote(config.server.tls.cert_file)} `;
  const key = firstKey === null ? "$UIS_API_KEY" : firstKey.secret;
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello!" }] });
  return [
    "Try it:",
    "",
    `  curl ${trust}${addresses.http}/v1/chat/completions -H "Authorization: Bearer ${key}" ` +
      `-H "Content-Type: application/json" -d ${quote(body)}`,
  ];
}

function firstChatModel({ models }: Config): string | null {
  const chats = models.find(({ capabilities, deployments, scripted }) => {
    if (capabilities !== undefined) return capabilities.includes("chat");
    return (deployments?.[0]?.scripted ?? scripted)?.dimensions === undefined;
  });
  return chats?.id ?? null;
}

/** As one word of a POSIX shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
