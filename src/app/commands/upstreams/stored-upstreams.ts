import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Client } from "@connectrpc/connect";
import type { Upstream, UpstreamDeployment } from "../../../../gen/unified/admin/v1/upstream_pb.js";
import { UpstreamService } from "../../../../gen/unified/admin/v1/upstream_service_pb.js";
import { errorText, printableLine } from "../../../lib/display-text.js";
import { type CliIo, CommandError, print, UsageError } from "../../command-line/cli-io.js";
import { isoTime, jsonInteger } from "../../command-line/cli-values.js";
import { type Cell, tableLines } from "../../command-line/table.js";
import type { CommandOptions } from "../load-for-command.js";
import { callAsAdministrator, present } from "../service-client.js";

interface AddOptions extends CommandOptions {
  readonly url: string;
  readonly kind?: string;
  /** File with the API key; `-` reads the key from stdin. */
  readonly keyFile?: string;
  readonly apiVersion?: string;
  readonly models?: string[];
  readonly native?: string[];
  readonly weight?: number;
  readonly priority?: number;
  readonly slots?: number;
  readonly serviceUrl?: string;
}

/** `uis upstreams add`. Without a kind the service asks the server for it first. */
export async function addUpstream(io: CliIo, name: string, options: AddOptions): Promise<void> {
  // Here --url is the URL of the upstream, and --service-url that of the service.
  const { url, kind, keyFile, apiVersion, models, native, weight, priority, slots, serviceUrl, ...rest } = options;
  const key = keyFile === undefined ? "" : await readKey(io, keyFile);
  const { upstream } = await callAsAdministrator(io, { ...rest, url: serviceUrl }, UpstreamService, async (client) => {
    const found = kind ?? (await kindOf(client, url, key));
    const settings = {
      apiVersion: apiVersion ?? "",
      models: models ?? [],
      native: native ?? [],
      weight,
      priority,
      slots,
    };
    const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
    return client.createUpstream({ upstream: { ...given, name, url, kind: found }, key });
  });
  const added = present(upstream);
  print(io, options, upstreamObject(added), ...upstreamLines(io, [added]));
}

const keyBytesMax = 65_536;

async function readKey(io: CliIo, keyFile: string): Promise<string> {
  if (keyFile !== "-") {
    return await readFile(resolve(io.cwd, keyFile), "utf8").then(withoutLineEnd, (cause: unknown) => {
      throw new UsageError(`--key-file cannot be read: ${errorText(cause)}`, { cause });
    });
  }
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of io.stdin) {
    bytes += part.length;
    if (bytes > keyBytesMax) throw new UsageError("more than 64 KiB on stdin: pass one API key");
    parts.push(part);
  }
  const key = withoutLineEnd(Buffer.concat(parts).toString());
  if (key === "") throw new UsageError("no API key on stdin: pass one, or leave out --key-file");
  return key;
}

function withoutLineEnd(text: string): string {
  return text.replace(/\r?\n$/, "");
}

async function kindOf(client: Client<typeof UpstreamService>, url: string, key: string): Promise<string> {
  const { usable, problem, fix, kind } = await client.checkUpstream({ url, key });
  if (usable) return kind;
  throw new CommandError(`${problem}: ${fix}, or set --kind to add it all the same`);
}

/** `uis upstreams rm` */
export async function removeUpstream(io: CliIo, name: string, options: CommandOptions): Promise<void> {
  await callAsAdministrator(io, options, UpstreamService, (client) => client.deleteUpstream({ name }));
  print(
    io,
    options,
    { name, object: "upstream", deleted: true },
    `${name} is deleted. Its running requests end normally.`,
  );
}

/** `uis upstreams drain` */
export async function drainDeployment(
  io: CliIo,
  id: string,
  options: CommandOptions & { readonly undo?: boolean },
): Promise<void> {
  const drain = options.undo !== true;
  const { deployment } = await callAsAdministrator(io, options, UpstreamService, (client) =>
    client.drainDeployment({ id, drain }),
  );
  const text = drain
    ? `${id} gets no new requests; ${deployment?.outstandingRequests ?? 0} still run.`
    : `${id} is no longer drained.`;
  print(io, options, deployment === undefined ? { id, draining: false } : deploymentObject(deployment), text);
}

/** An upstream of the running service for JSON. `upstreamOf` does the same for upstreams of the configuration. */
export function upstreamObject(upstream: Upstream): object {
  const { name, kind, url, deployments, discover, source } = upstream;
  return {
    name,
    kind,
    url,
    models: modelsOf(upstream),
    native: upstream.native,
    discovers_models: discover !== undefined && (discover.seconds > 0n || discover.nanos > 0),
    source,
    hides_stored: upstream.hidesStored,
    key_count: upstream.keyCount,
    key_hint: upstream.keyHint || null,
    header_names: upstream.headerNames,
    problem: upstream.problem || null,
    deployments: deployments.map(deploymentObject),
  };
}

function modelsOf({ deployments }: Upstream): readonly string[] {
  return [...new Set(deployments.map(({ model }) => model))];
}

function deploymentObject(deployment: UpstreamDeployment): object {
  const { id, model, state, weight, priority, slots } = deployment;
  return {
    id,
    model,
    upstream_model: deployment.upstreamModel,
    state,
    reason: deployment.reason || null,
    until: isoTime(deployment.until),
    outstanding_requests: deployment.outstandingRequests,
    outstanding_tokens: jsonInteger(deployment.outstandingTokens),
    weight,
    priority,
    slots,
  };
}

/** One line for each upstream, followed by one line for each of its deployments that is not ready. */
export function upstreamLines(io: CliIo, upstreams: readonly Upstream[]): readonly string[] {
  const rows = upstreams.map((upstream) => {
    const { name, kind, url, source, problem, deployments } = upstream;
    const ready = deployments.filter(({ state }) => state === "ready").length;
    const isReady = ready === deployments.length;
    const state: Cell =
      problem === "" ? [isReady ? "good" : "warning", `${ready} of ${deployments.length} ready`] : ["bad", problem];
    return [name, source, kind, url, state, modelsOf(upstream).join(", ")];
  });
  const [head = "", ...lines] = tableLines(io, ["NAME", "SOURCE", "KIND", "URL", "STATE", "MODELS"], rows);
  const ofUpstreams = upstreams.flatMap(({ deployments }, i) => [
    lines[i] ?? "",
    ...deployments.filter(({ state }) => state !== "ready").map(deploymentLine),
  ]);
  return upstreams.length === 0 ? [] : [head, ...ofUpstreams];
}

function deploymentLine({ id, state, reason, until }: UpstreamDeployment): string {
  const end = until === undefined ? "" : ` until ${isoTime(until)}`;
  return `  ${printableLine(id)}  ${state}${end}${reason === "" ? "" : `: ${printableLine(reason)}`}`;
}
