import { EngineError } from "../../domain/engine/engine.js";
import type { UpstreamCheck, UpstreamDefinition } from "../../domain/engine/upstream.js";
import { Upstream } from "../../engines/openai/connection/upstream.js";
import { checkUpstream } from "../../engines/openai/discovery.js";
import { InvalidResponse } from "../../engines/openai/protocol/upstream-failure.js";
import { createSystemClock } from "../../lib/clock.js";

/** Maximum times of one request; shorter times in the settings of the upstream apply instead. */
const stepMsMax = 5_000;
const requestMsMax = 10_000;
/** Maximum time of the whole check, which requests the list of models and then the version. */
const checkMsMax = 15_000;

/** Queries an upstream once, in `withinMs` at most. Follows no redirect. */
export async function examineUpstream(definition: UpstreamDefinition, withinMs = checkMsMax): Promise<UpstreamCheck> {
  const stepMs = Math.min(stepMsMax, withinMs);
  const clock = createSystemClock();
  const upstream = new Upstream(clock, {
    ...definition,
    connectMs: Math.min(definition.connectMs, stepMs),
    firstByteMs: Math.min(definition.firstByteMs, stepMs),
    idleMs: Math.min(definition.idleMs, stepMs),
    totalMs: Math.min(definition.totalMs, requestMsMax, withinMs),
  });
  try {
    return { facts: await checkUpstream(upstream, clock, AbortSignal.timeout(withinMs)) };
  } catch (error) {
    if (error instanceof EngineError) return explain(error, definition);
    throw error;
  } finally {
    await upstream.close();
  }
}

/** One sentence with the reason why a request to an upstream failed, and the remedy. */
export function problemText(error: EngineError, definition: UpstreamDefinition): string {
  const { problem, fix } = explain(error, definition);
  return `${problem}: ${fix}`;
}

function explain(error: EngineError, { url, keys }: UpstreamDefinition): { problem: string; fix: string } {
  switch (error.code) {
    case "unauthorized": {
      const problem = keys.length === 0 ? `${url} requires an API key` : `${url} does not accept the API key`;
      return { problem, fix: "set a valid key: key_file in uis.yaml, or --key-file on the command line" };
    }
    case "forbidden":
      return { problem: `${url} does not allow the API key to list its models`, fix: "use a key that may list models" };
    case "timeout":
    case "aborted":
      return { problem: `${url} does not answer in time`, fix: "check the address, and whether the server runs" };
    case "model_loading":
      return { problem: `${url} is still loading its model`, fix: "check it again when the model is loaded" };
    case "rate_limited":
      return { problem: `${url} limits the rate of requests`, fix: "check it again later" };
    default:
  }
  const reason = error instanceof InvalidResponse ? null : networkReason(error.cause);
  if (reason !== null) {
    return { problem: `${url} cannot be reached (${reason})`, fix: "start the server, or correct the address" };
  }
  // The message of an error about the request is the server's.
  const isOurs = error.code !== "bad_input" && error.code !== "context_overflow";
  const found = isOurs ? error.message : "the upstream rejected the request";
  return {
    problem: `${url} does not list models as OpenAI's API does (${found})`,
    fix: "use the base URL of the API, which usually ends with /v1",
  };
}

/** The message of a failed connection; null for other errors. */
function networkReason(cause: unknown): string | null {
  if (!(cause instanceof Error && "code" in cause)) return null;
  // All addresses of a host name were tried: the first failure is reported.
  const [first]: unknown[] = cause instanceof AggregateError ? cause.errors : [];
  if (first instanceof Error) return first.message;
  return cause.message === "" ? String(cause.code) : cause.message;
}
