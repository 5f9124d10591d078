import { RequestLogs, startTrim } from "../../domain/request-log/request-logs.js";
import { startResponsePurge } from "../../domain/responses/response-purge.js";
import type { State } from "../../domain/service/state.js";
import type { SecretBox } from "../../lib/crypto.js";
import { withoutSecrets } from "../../telemetry/logger.js";
import type { Context } from "./context.js";

/** Stored data about requests: the request log and stored responses, both off by default. */

/** Opens the request log. While it is off, the code that records requests is not loaded. */
export async function composeRequestLog({ config, lifecycle, log, backgroundClock: clock }: Context, state: State) {
  const { keep, keep_content: keepsContent } = config.requests;
  const { requestLogs: store } = state;
  lifecycle.onClose("trim of the request log", startTrim({ store, clock, keep, log }));
  const requestLogs = new RequestLogs({ store, clock, keep, keepsContent });
  if (keep === 0) return { requestLogs, recorder: null };
  const { RequestRecorder } = await import("../../domain/request-log/request-recorder.js");
  const recorder = new RequestRecorder({ store, clock, log, redact: withoutSecrets, keep, keepsContent });
  lifecycle.onClose("request log", () => recorder.close());
  return { requestLogs, recorder };
}

/** Opens the stored responses; null if none are stored, and then their code is not loaded. */
export async function composeStoredResponses(context: Context, { responses: store, now }: State, secrets: SecretBox) {
  const { config, lifecycle, log, backgroundClock: clock } = context;
  const { keep: keepMs } = config.responses;
  lifecycle.onClose("purge of responses", startResponsePurge({ store, clock, now, keepMs, log }));
  if (keepMs === 0) return null;
  const { StoredResponses } = await import("../../domain/responses/stored-responses.js");
  return new StoredResponses({ store, secrets, clock, now, keepMs, log });
}
