/**
 * The process that runs one model. It communicates with the server over its IPC channel alone and exits when that closes.
 * It ignores signals, because signals of a terminal or a service manager reach both processes, and the server waits for
 * running calls before it ends this process.
 */
import { EngineError } from "../../../domain/engine/engine.js";
import type { ChildError, FromChild, ToChild } from "../protocol/protocol.js";
import { EventBatch, EventJoiner } from "./event-batch.js";
import { type Hosts, loadModel } from "./load-model.js";
import { SlotLost } from "./slots.js";
import { StepBatcher } from "./steps.js";

/** EX_SOFTWARE of sysexits, which Node itself never exits with. */
const faultExitCode = 70;

process.on("uncaughtException", fail);
process.on("unhandledRejection", fail);
process.on("disconnect", () => process.exit(0));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

const batcher = new StepBatcher();
const eventBatch = new EventBatch(send, batcher);
const aborts = new Map<number, AbortController>();
/** The hosts of the loaded model; empty until it is loaded. */
let hosts: Hosts = {};

process.on("message", receive);
send({ type: "up" });

function fail(error: unknown): never {
  process.stderr.write(`fatal: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exit(faultExitCode);
}

function send(message: FromChild): void {
  // An error of a channel that breaks during the call is ignored: the process exits when the channel closes.
  process.send?.(message, undefined, undefined, () => {});
}

function receive(message: ToChild): void {
  switch (message.type) {
    case "load":
      void load(message);
      return;
    case "generate":
      void run(message, (signal) => generate(message, signal));
      return;
    case "embed":
      void run(message, (signal) => embed(message, signal));
      return;
    case "count":
      void run(message, (signal) => count(message, signal));
      return;
    case "abort":
      aborts.get(message.call)?.abort();
      return;
    case "ping":
      send({
        type: "pong",
        ping: message.ping,
        slotsBusy: (hosts.chat ?? hosts.embedding)?.slotsBusy ?? 0,
        memoryBytes: process.memoryUsage.rss(),
      });
  }
}

async function load({ model }: Extract<ToChild, { type: "load" }>): Promise<void> {
  const onProgress = (share: number): void => send({ type: "loading", share });
  const onLog = (line: string): boolean => process.stderr.write(`${line}\n`);
  try {
    const loaded = await loadModel(model, { batcher, onProgress, onLog });
    hosts = loaded.hosts;
    send({ type: "loaded", facts: loaded.facts });
  } catch (error) {
    send({ type: "load_failed", error: toChildError(error) });
  }
}

/** Every call ends with one message: the one that `answer` returns, or `failed`. */
async function run(
  { call }: { readonly call: number },
  answer: (signal: AbortSignal) => Promise<FromChild>,
): Promise<void> {
  const abort = new AbortController();
  aborts.set(call, abort);
  const end = await answer(abort.signal).catch((error: unknown): FromChild => {
    if (error instanceof SlotLost) fail(error);
    return { type: "failed", call, error: toChildError(error) };
  });
  aborts.delete(call);
  eventBatch.flush();
  send(end);
}

async function generate(
  { call, request }: Extract<ToChild, { type: "generate" }>,
  signal: AbortSignal,
): Promise<FromChild> {
  const joiner = new EventJoiner((event) => eventBatch.add(call, event));
  await hostFor("chat").generate(
    request,
    (event) => (request.deltas === "joined" ? joiner.push(event) : eventBatch.add(call, event)),
    signal,
  );
  return { type: "done", call };
}

async function embed({ call, request }: Extract<ToChild, { type: "embed" }>, signal: AbortSignal): Promise<FromChild> {
  return { type: "embedded", call, ...(await hostFor("embedding").embed(request, signal)) };
}

async function count(
  { call, input, format }: Extract<ToChild, { type: "count" }>,
  signal: AbortSignal,
): Promise<FromChild> {
  return { type: "counted", call, tokens: await hostFor("chat").count(input, format, signal) };
}

/** Throws EngineError `model_not_loaded`, or `unsupported` for a model of the other kind. */
function hostFor<K extends keyof Hosts>(kind: K): NonNullable<Hosts[K]> {
  const host = hosts[kind];
  if (host !== undefined) return host;
  if (hosts.chat !== undefined) throw new EngineError("unsupported", "This model only generates text.");
  if (hosts.embedding !== undefined) throw new EngineError("unsupported", "This model only computes embeddings.");
  throw new EngineError("model_not_loaded", "the engine's process has no model yet", { retryable: true });
}

/** The error as it is sent over the channel. `cause` is not sent, so the message of an internal error includes it. */
function toChildError(thrown: unknown): ChildError {
  if (!(thrown instanceof EngineError)) {
    return { code: "internal", message: describe(thrown), retryable: true, param: null, usage: null };
  }
  const { code, retryable, param, usage, cause } = thrown;
  const hasCause = code === "internal" && cause !== undefined;
  return {
    code,
    message: hasCause ? `${thrown.message}: ${describe(cause)}` : thrown.message,
    retryable,
    param,
    usage,
  };
}

function describe(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
}
