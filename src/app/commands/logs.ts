import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import {
  RequestAttemptSchema,
  RequestContentSchema,
  type RequestLog,
  RequestLogSchema,
} from "../../../gen/unified/admin/v1/request_log_pb.js";
import { RequestLogService } from "../../../gen/unified/admin/v1/request_log_service_pb.js";
import { type ErrorCode, errorRow, errors } from "../../contract/errors.js";
import { printable } from "../../lib/display-text.js";
import { type CliIo, CommandError, UsageError } from "../command-line/cli-io.js";
import { isoTime, parseInstant, toJsonObject } from "../command-line/cli-values.js";
import { moneyText } from "../command-line/money.js";
import { type Cell, factLines, numeric, type Tone, tableLines } from "../command-line/table.js";
import type { CommandOptions } from "./load-for-command.js";
import { administratorTarget, explained, pagesOf, present, serviceClient } from "./service-client.js";

interface LogsOptions extends CommandOptions {
  readonly json?: boolean;
  readonly follow?: boolean;
  /** Maximum number of requests of the past. */
  readonly limit: number;
  readonly model?: string;
  /** Id of an API key. */
  readonly key?: string;
  readonly account?: string;
  readonly code?: string;
  readonly from?: string;
  readonly to?: string;
}

type LogClient = Client<typeof RequestLogService>;

/** `uis logs`: one request by its id; else the last requests, the newest last, and with --follow those that end. */
export async function logs(io: CliIo, id: string | undefined, options: LogsOptions): Promise<void> {
  const target = await administratorTarget(io, options);
  const client = serviceClient(RequestLogService, target);
  if (id === undefined) return await explained(target, printRequests(io, options, client));
  if (options.follow) throw new UsageError("--follow shows requests as they end: leave out the id");
  const { requestLog } = await explained(target, client.getRequestLog({ id }));
  printRequest(io, options, present(requestLog));
}

async function printRequests(io: CliIo, options: LogsOptions, client: LogClient): Promise<void> {
  const { model = "", key: apiKeyId = "", account = "", code = "", limit } = options;
  const filter = { model, apiKeyId, account, code, ...instants(options) };
  const { keep } = await client.listRequestLogs({ pageSize: 1 });
  if (keep === 0) {
    throw new CommandError("the request log is off: set requests.keep in uis.yaml, e.g. to 10000, and restart");
  }
  const output = new LogOutput(io, options.json === true);
  if (options.follow) {
    const responses = client.watchRequestLogs({ ...filter, recent: limit });
    for await (const { requestLogs } of responses) output.add(requestLogs);
    throw new CommandError("the service has ended the stream: start the command again");
  }
  const found: RequestLog[] = [];
  const pages = pagesOf((pageToken) =>
    client.listRequestLogs({ ...filter, pageToken, pageSize: limit - found.length }),
  );
  for await (const { requestLogs } of pages) {
    found.push(...requestLogs);
    if (found.length >= limit) break;
  }
  output.add(found.reverse());
  if (found.length === 0 && !options.json) io.stderr.write("no request matches\n");
}

function instants({ from, to }: LogsOptions): { from?: Timestamp; to?: Timestamp } {
  return {
    ...(from !== undefined && { from: timestampFromDate(parseInstant("--from", from)) }),
    ...(to !== undefined && { to: timestampFromDate(parseInstant("--to", to)) }),
  };
}

/** Columns with their minimum widths, so that later rows align with earlier ones. */
const columns = [
  { title: "TIME", width: 20 },
  { title: "CODE", width: 12 },
  { title: "MODEL", width: 20 },
  { title: "KEY", width: 28 },
  { title: "ATTEMPTS", width: 8, isNumber: true },
  { title: "FIRST", width: 7, isNumber: true },
  { title: "TOTAL", width: 7, isNumber: true },
  { title: "TOKENS", width: 13, isNumber: true },
  { title: "COST", width: 9, isNumber: true },
  { title: "REQUEST", width: 36 },
];

/** Prints requests as rows of one table, or one JSON object a line. */
class LogOutput {
  readonly #io: CliIo;
  readonly #isJson: boolean;
  #hasHeader = false;

  constructor(io: CliIo, isJson: boolean) {
    this.#io = io;
    this.#isJson = isJson;
  }

  add(requests: readonly RequestLog[]): void {
    if (requests.length === 0) return;
    const titles = columns.map(({ title, isNumber }) => (isNumber ? numeric(title) : title));
    const lines = this.#isJson
      ? requests.map((request) => JSON.stringify(toLogObject(request)))
      : tableLines(this.#io, titles, requests.map(cellsOf)).slice(this.#hasHeader ? 1 : 0);
    this.#hasHeader = true;
    for (const line of lines) this.#io.stdout.write(`${line}\n`);
  }
}

function cellsOf(log: RequestLog): readonly Cell[] {
  const texts = [
    secondText(log),
    log.code,
    log.fallbackModel === "" ? log.model || "-" : `${log.model} > ${log.fallbackModel}`,
    log.apiKeyId || "administrator",
    String(log.attempts),
    log.firstTokenMs === undefined ? "-" : durationText(log.firstTokenMs),
    durationText(log.durationMs),
    `${log.promptTokens} + ${log.completionTokens}`,
    moneyText(log.costNanoDollars),
    log.id,
  ];
  return columns.map(({ title, width, isNumber }, i): Cell => {
    const text = texts[i] ?? "";
    const padded = isNumber ? text.padStart(width) : text.padEnd(width);
    return title === "CODE" ? [toneOf(log.code), padded] : padded;
  });
}

/** Faults of the service are bad, those of the caller a warning. */
function toneOf(code: string): Tone {
  if (code === "ok") return "good";
  return Object.hasOwn(errors, code) && errorRow(code as ErrorCode).http < 500 ? "warning" : "bad";
}

function secondText({ receivedAt }: RequestLog): string {
  return isoTime(receivedAt)?.replace(/\.\d+Z$/, "Z") ?? "-";
}

/** `0.4ms`, `250ms`, `12.5s` */
function durationText(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)}ms`;
  return ms < 10_000 ? `${Math.round(ms)}ms` : `${(ms / 1_000).toFixed(1)}s`;
}

function toLogObject(log: RequestLog): object {
  const nullable = ["api_key_id", "model", "fallback_model", "client_request_id", "trace_id"];
  return {
    ...toJsonObject(RequestLogSchema, log, nullable),
    tries: log.tries.map((one) => toJsonObject(RequestAttemptSchema, one)),
    content: log.content === undefined ? null : toJsonObject(RequestContentSchema, log.content),
  };
}

/** Prints the facts of one request, its tries, and its content if that is stored. */
function printRequest(io: CliIo, { json }: LogsOptions, log: RequestLog): void {
  const lines = json
    ? [JSON.stringify(toLogObject(log))]
    : [...requestLines(log), "", ...stepLines(io, log), ...contentLines(log)];
  for (const line of lines) io.stdout.write(`${line}\n`);
}

function requestLines(log: RequestLog): readonly string[] {
  const facts: [string, string][] = [
    ["Request", log.id],
    ["Received", isoTime(log.receivedAt) ?? "-"],
    ["Result", log.code],
    ["Operation", `${log.operation}${log.isStream ? ", streamed" : ""} (${log.protocol})`],
    ["Model", log.model || "-"],
    ["Answered by", log.fallbackModel],
    ["Account", log.account],
    ["API key", log.apiKeyId || "administrator"],
    ["Address", log.address],
    ["Tokens", `${log.promptTokens} prompt (${log.cachedTokens} cached), ${log.completionTokens} completion`],
    ["Cost", moneyText(log.costNanoDollars)],
    ["Client's id", log.clientRequestId],
    ["Trace", log.traceId],
    ...Object.entries(log.labels),
  ];
  return factLines(
    facts.filter(([, value]) => value !== "").map(([name, value]) => [printable(name), printable(value)]),
  );
}

/** The steps of a request in the order of their start times. */
function stepLines(io: CliIo, log: RequestLog): readonly string[] {
  const tries = log.tries.map(({ deployment, beganMs, durationMs, code }): [number, readonly Cell[]] => [
    beganMs,
    [`attempt at ${deployment}`, durationText(beganMs), durationText(durationMs), [toneOf(code), code]],
  ]);
  const { firstTokenMs } = log;
  const first: [number, readonly Cell[]][] =
    firstTokenMs === undefined ? [] : [[firstTokenMs, ["first token", durationText(firstTokenMs), "", ""]]];
  const end: [number, readonly Cell[]] = [log.durationMs, ["end", durationText(log.durationMs), "", ""]];
  const waits: readonly Cell[][] = [
    ["admission", "", durationText(log.admitMs), ""],
    ["wait for a slot", "", durationText(log.queueMs), ""],
  ];
  const timed = [...tries, ...first, end].sort(([a], [b]) => a - b).map(([, cells]) => cells);
  return tableLines(io, ["STEP", numeric("BEGIN"), numeric("DURATION"), "RESULT"], [...waits, ...timed]);
}

function contentLines({ content }: RequestLog): readonly string[] {
  if (content === undefined) return [];
  const { request, answers, errorMessage, isCut } = content;
  return [
    "",
    "Request:",
    printable(request),
    ...answers.flatMap((answer, i) => ["", answers.length === 1 ? "Answer:" : `Answer ${i + 1}:`, printable(answer)]),
    ...(errorMessage === "" ? [] : ["", "Error:", printable(errorMessage)]),
    ...(isCut ? ["", "Parts of it were too long to be kept."] : []),
  ];
}
