import { resolve } from "node:path";
import { UpstreamService } from "../../../../gen/unified/admin/v1/upstream_service_pb.js";
import type { UpstreamDefinition, UpstreamFacts, UpstreamKind } from "../../../domain/engine/upstream.js";
import { type CliIo, CommandError, print, printList, UsageError } from "../../command-line/cli-io.js";
import { numeric, tableLines } from "../../command-line/table.js";
import { examineUpstream } from "../../compose/upstream-check.js";
import { deploymentsOf, discoverMs } from "../../config/model-references.js";
import { defineUpstream, type NewUpstream, upstreamYaml } from "../../config/new-upstream.js";
import { ConfigError } from "../../config/problem.js";
import type { Config } from "../../config/schema.js";
import { type CommandOptions, loadForCommand } from "../load-for-command.js";
import { callAsAdministrator, findService } from "../service-client.js";
import { upstreamLines, upstreamObject } from "./stored-upstreams.js";

interface CheckOptions extends CommandOptions {
  readonly keyFile?: string;
  readonly kind?: UpstreamKind;
}

/** `uis upstreams check URL`: facts about a server, and the configuration that adds it. */
export async function checkUpstreamAt(io: CliIo, address: string, options: CheckOptions): Promise<void> {
  const keyFile = options.keyFile === undefined ? null : resolve(io.cwd, options.keyFile);
  const added: NewUpstream = { url: address, kind: options.kind ?? null, keyFile };
  const definition = definitionOf(added);
  const checked = await examineUpstream(definition);
  if ("problem" in checked) throw new CommandError(`${checked.problem}: ${checked.fix}`);
  const { facts } = checked;
  const { url } = definition;
  const kind = options.kind ?? facts.kind ?? "generic";
  const ids = facts.models.filter(({ operations }) => operations.length > 0).map(({ id }) => id);
  const config = upstreamYaml({ ...added, url }, kind, ids, facts.slots);
  const models = facts.models.map(({ id, operations, contextLength }) => {
    return { id, capabilities: operations, context_length: contextLength };
  });
  const document = { url, kind, version: facts.version, models, latency_ms: facts.latencyMs, config };
  const factLines = [summaryOf(url, kind, facts), "", ...modelLines(io, facts)];
  const block = ["To add it, paste this into uis.yaml:", "", config.trimEnd()];
  const next = "Then start the service with `uis serve`, or send SIGHUP to the running one.";
  print(io, options, document, ...factLines, "", ...block, "", next);
}

/** Throws UsageError for an unusable URL or key file. */
function definitionOf(upstream: NewUpstream): UpstreamDefinition {
  try {
    return defineUpstream(upstream);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const [problem] = error.problems;
    const subject = problem?.path.endsWith("key_file") ? "--key-file" : "the URL";
    throw new UsageError(`${subject} ${problem?.message}`, { cause: error });
  }
}

function summaryOf(url: string, kind: UpstreamKind, { version, models, latencyMs }: UpstreamFacts): string {
  const server = version === null ? kind : `${kind} ${version}`;
  const count = models.length === 1 ? "1 model" : `${models.length} models`;
  return `${url} is ${server}, with ${count}; answered in ${latencyMs} ms.`;
}

function modelLines(io: CliIo, { models }: UpstreamFacts): readonly string[] {
  if (models.length === 0) return ["It lists no models."];
  const rows = models.map(({ id, operations, contextLength }) => {
    const context = contextLength === null ? "not stated" : String(contextLength);
    return [id, operations.join(", ") || "no operation of this service", context];
  });
  return tableLines(io, ["MODEL", "OPERATIONS", numeric("CONTEXT")], rows);
}

/** `uis upstreams list`: those of the running service, else those of the configuration. */
export async function listUpstreams(io: CliIo, options: CommandOptions): Promise<void> {
  const { isNamed, pid } = await findService(io, options);
  if (!isNamed && pid === null) return await listConfigured(io, options);
  const { upstreams } = await callAsAdministrator(io, options, UpstreamService, (client) => client.listUpstreams({}));
  const ifNone = "There are no upstreams. Check a server with: uis upstreams check URL";
  printList(io, options, upstreams.map(upstreamObject), upstreamLines(io, upstreams), ifNone);
}

async function listConfigured(io: CliIo, options: CommandOptions): Promise<void> {
  const { config } = await loadForCommand(io, options);
  const listed = Object.keys(config.upstreams).map((name) => upstreamOf(config, name));
  const rows = listed.map(({ name, kind, url, models, discovers_models: discovers }) => {
    const ofServer = discovers ? ["all that it lists"] : [];
    return [name, kind, url, [...models, ...ofServer].join(", ") || "no models"];
  });
  const ifNone = "No upstreams are configured. Check a server with: uis upstreams check URL";
  printList(io, options, listed, tableLines(io, ["NAME", "KIND", "URL", "MODELS"], rows), ifNone);
}

/** An upstream for JSON. `models`: ids of the configured models with a deployment on it. */
function upstreamOf({ upstreams, models: configured }: Config, name: string) {
  const models = configured ?? [];
  const named = models.filter((model) => deploymentsOf(model).some(({ upstream }) => upstream === name));
  return {
    name,
    kind: upstreams[name]?.kind ?? "generic",
    url: upstreams[name]?.url ?? "",
    models: named.map(({ id }) => id),
    native: upstreams[name]?.native ?? [],
    discovers_models: discoverMs(name, models, upstreams) !== null,
    source: "config",
  };
}
