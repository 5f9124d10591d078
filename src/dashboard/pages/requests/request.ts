/** Requests of the request log as text, their steps, and the list filter. */
import type { RequestLogJson } from "../../../../gen/unified/admin/v1/request_log_pb.js";
import type { ListRequestLogsRequestJson } from "../../../../gen/unified/admin/v1/request_log_service_pb.js";
import { count } from "../../lib/format.js";

/** Reads a double, which protobuf JSON writes as text where it is not finite. */
export function numberOf(value: number | string | undefined): number {
  return typeof value === "number" ? value : 0;
}

/** Errors that are the caller's own or expected under load. */
const expectedErrors = /^(client_closed_request|rate_limit_|insufficient_quota|server_shutting_down)/;

export function toneOf(code: string): "good" | "busy" | "bad" {
  if (code === "ok") return "good";
  return expectedErrors.test(code) ? "busy" : "bad";
}

/** `OK`, or the code of the error. */
export function resultOf({ code = "" }: RequestLogJson): string {
  return code === "ok" ? "OK" : code;
}

/** `12 + 34`: tokens of prompt and answer. */
export function tokensOf({ promptTokens, completionTokens }: RequestLogJson): string {
  return `${count(promptTokens)} + ${count(completionTokens)}`;
}

/** A phase of a request between its arrival and its end. Steps may overlap: a batch runs in several slots. */
export interface Step {
  readonly title: string;
  readonly beginMs: number;
  readonly durationMs: number;
  /** `ok`, or the code of the error that ended it. */
  readonly code: string;
}

/**
 * The steps of a request in the order of their start. The wait before the first attempt is the total wait minus the gaps
 * between attempts. Successful steps shorter than a tenth of a millisecond are left out.
 */
export function stepsOf(log: RequestLogJson): readonly Step[] {
  const endMs = numberOf(log.durationMs);
  const tries = log.tries ?? [];
  const step = (title: string, beginMs: number, untilMs: number, code = "ok"): Step => {
    return { title, beginMs, durationMs: untilMs - beginMs, code };
  };
  const [first] = tries;
  if (first === undefined) return [step("Received and checked", 0, endMs)];
  const spans = tries.map(({ deployment = "", beganMs, durationMs, code = "" }) => {
    const beginMs = numberOf(beganMs);
    return step(deployment, beginMs, beginMs + numberOf(durationMs), code);
  });
  const steps: Step[] = [];
  let runningUntilMs = numberOf(first.beganMs);
  let gapsMs = 0;
  for (const span of spans) {
    if (span.beginMs > runningUntilMs) {
      steps.push(step("Waited for a slot", runningUntilMs, span.beginMs));
      gapsMs += span.beginMs - runningUntilMs;
    }
    steps.push(span);
    runningUntilMs = Math.max(runningUntilMs, span.beginMs + span.durationMs);
  }
  const firstTokenMs = log.firstTokenMs === undefined ? null : numberOf(log.firstTokenMs);
  if (firstTokenMs !== null && firstTokenMs <= runningUntilMs) {
    steps.push(step("Streamed from the first token", firstTokenMs, runningUntilMs));
  }
  const slotMs = numberOf(first.beganMs);
  const waitedFromMs = Math.max(0, slotMs - Math.max(0, numberOf(log.queueMs) - gapsMs));
  const admittedFromMs = Math.max(0, waitedFromMs - numberOf(log.admitMs));
  const before = [
    step("Received and checked", 0, admittedFromMs),
    step("Checked limits", admittedFromMs, waitedFromMs),
    step("Waited for a slot", waitedFromMs, slotMs),
  ];
  const after = step("Settled and delivered", runningUntilMs, Math.max(runningUntilMs, endMs));
  return [...before, ...steps, after].filter(({ durationMs, code }) => durationMs >= 0.1 || code !== "ok");
}

/** The list filter, kept in the page's URL; empty values do not filter. */
export interface RequestQuery {
  readonly code: string;
  readonly model: string;
  readonly key: string;
  readonly account: string;
  /** A key of `ranges`. */
  readonly range: string;
}

export const ranges: Readonly<Record<string, string>> = {
  "": "Any time",
  "15": "Last 15 minutes",
  "60": "Last hour",
  "1440": "Last 24 hours",
  "10080": "Last 7 days",
};

export function queryOf(address: URLSearchParams): RequestQuery {
  const of = (name: keyof RequestQuery): string => address.get(name) ?? "";
  return { code: of("code"), model: of("model"), key: of("key"), account: of("account"), range: of("range") };
}

export function isFiltered(query: RequestQuery): boolean {
  return Object.values(query).some((value) => value !== "");
}

export function listRequest(
  { code, model, key, account, range }: RequestQuery,
  pageToken: string,
  pageSize: number,
  nowMs: number,
): ListRequestLogsRequestJson {
  const minutes = Object.hasOwn(ranges, range) ? Number(range) : 0;
  return {
    code,
    model,
    apiKeyId: key,
    account,
    pageSize,
    pageToken,
    ...(minutes > 0 ? { from: new Date(nowMs - minutes * 60_000).toISOString() } : {}),
  };
}

/** JSON with line breaks; other text as it is. */
export function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
