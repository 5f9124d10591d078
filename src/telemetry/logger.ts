import { AssertionError } from "node:assert";
import { pino } from "pino";
import { CallEntry } from "../domain/call/call.js";
import type { Logger } from "../domain/call/ports.js";
import { jsonString } from "../lib/json-string.js";

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "silent";

/** The destination of lines. Each line is one JSON object and ends with a line break. */
export interface LogSink {
  write(line: string): void;
}

interface LoggerOptions {
  /** The lowest level that is written. */
  readonly level: LogLevel;
  readonly sink: LogSink;
  /** Number of the worker that writes, a field of each line. Absent: the only process. */
  readonly worker?: number | undefined;
}

/**
 * JSON lines for machines: `level` by name, `time` as ISO 8601, no secret (SEC-18, KEY-18). Pino writes them, except the
 * line of each request, which serializes itself in a tenth of pino's time.
 */
export function createLogger({ level, sink, worker }: LoggerOptions): Logger {
  const write = (line: string): void => sink.write(withoutSecrets(line));
  const timestamp = createTimestamp();
  const formatters = { level: (label: string) => ({ level: label }) };
  const base = worker === undefined ? null : { worker };
  const log = pino({ level, base, timestamp, formatters, serializers: { err: serializeError } }, { write });
  const writeAt = (name: keyof Logger): Logger["info"] => {
    if (!log.isLevelEnabled(name)) return () => {};
    const start = `{"level":"${name}"`;
    const ofWorker = worker === undefined ? "" : `,"worker":${worker}`;
    return (fields, message) => {
      if (!(fields instanceof CallEntry)) {
        log[name](fields, message);
        return;
      }
      const line = `${start}${timestamp()}${ofWorker}${fields.toMembers()},"msg":${jsonString(message)}}\n`;
      if (fields.holdsForeignText) write(line);
      else sink.write(line);
    };
  };
  return { debug: writeAt("debug"), info: writeAt("info"), warn: writeAt("warn"), error: writeAt("error") };
}

/** The field `time` of a line. All but the milliseconds is kept for a second: formatting a whole time takes 4 µs. */
function createTimestamp(): () => string {
  let secondAtMs = Number.NaN;
  let member = "";
  return () => {
    const nowMs = Date.now();
    const ms = nowMs % 1_000;
    if (nowMs - ms !== secondAtMs) {
      secondAtMs = nowMs - ms;
      member = `,"time":"${new Date(secondAtMs).toISOString().slice(0, -"000Z".length)}`;
    }
    return `${member}${String(ms).padStart(3, "0")}Z"`;
  };
}

/**
 * Type, message and fields of an error, each message of its chain of causes once, because errors often quote the message of
 * their cause. Stack frames only for a fault of the program: the first stack that names a file of the bundle costs tens of
 * milliseconds, because its source map has to be parsed, and a store that is away is no reason to delay all requests.
 */
function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const chain = chainOf(error);
  const first = { type: error.constructor.name, message: messageOf(chain) };
  // Twice: these two come first, and no field of the error replaces them.
  const serialized = { ...first, ...error, ...first };
  return isFault(error) ? { ...serialized, stack: chain.map(framesOf).join("\ncaused by: ") } : serialized;
}

/** Error classes of JavaScript: such an error is a fault of the program. */
const programErrors: ReadonlySet<unknown> = new Set([
  Error,
  TypeError,
  RangeError,
  ReferenceError,
  SyntaxError,
  AssertionError,
]);

/** Errors with a code, such as ECONNREFUSED, and those of own classes are expected. `internal_error` holds what was thrown. */
function isFault(error: Error): boolean {
  if (!("code" in error)) return programErrors.has(error.constructor);
  return error.code === "internal_error" && error.cause instanceof Error && isFault(error.cause);
}

/** The error, its causes, and the errors that an AggregateError stands for. */
function chainOf(error: Error): readonly Error[] {
  const chain = new Set<Error>([error]);
  for (const { cause, errors } of chain as Set<Error & { readonly errors?: unknown }>) {
    for (const next of [cause, ...(Array.isArray(errors) ? errors : [])]) if (next instanceof Error) chain.add(next);
  }
  return [...chain];
}

function messageOf(chain: readonly Error[]): string {
  let text = "";
  for (const { message } of chain) if (!text.includes(message)) text += text === "" ? message : `: ${message}`;
  return text;
}

/** The name of an error and its stack frames. The message is left out: `message` has it. */
function framesOf({ name, stack = "" }: Error): string {
  const firstFrame = stack.search(/^ +at /m);
  return firstFrame === -1 ? name : `${name}\n${stack.slice(firstFrame)}`;
}

/** Names of fields that hold secrets, at any depth. */
const secretFields = [
  "authorization",
  "proxy-authorization",
  "cookie",
  "set-cookie",
  "x-api-key",
  "api_key",
  "apiKey",
  "secret",
  "password",
  "admin_token",
  "adminToken",
];

/**
 * A secret field with its value, a string or a list, at any depth of a line. The finished line is searched, because
 * pino's own redaction by path costs 35 µs a line with wildcards, on the path of every request.
 */
const secretField = new RegExp(`"(${secretFields.join("|")})":(?:"(?:[^"\\\\]|\\\\.)*"|\\[[^\\]]*\\])`, "gi");

/** A key or bearer credential inside other text, e.g. an error's message. */
const credentialText = /\b(sk-uis-|bearer\s+)[^\s"'\\]+/gi;

/** Matches a line with a secret of either kind. Nearly every line has none, and is searched once instead of twice. */
const anySecret = new RegExp(`${secretField.source}|${credentialText.source}`, "i");

/** The line of JSON with `[redacted]` in place of every secret (SEC-18, KEY-18). */
export function withoutSecrets(line: string): string {
  if (!anySecret.test(line)) return line;
  return line.replace(secretField, '"$1":"[redacted]"').replace(credentialText, "$1[redacted]");
}

interface StderrSink extends LogSink {
  /** Writes complete lines unchanged. */
  writeBytes(lines: Uint8Array): void;
  /** Writes pending lines before the process ends. Gives up when the reader of stderr does not read. */
  flush(): void;
}

/**
 * Lines are written in batches of about this many bytes, or after this time. Half of the capacity of a pipe, so that a
 * write seldom waits for the reader.
 */
const batchBytes = 32 * 1024;
const batchMs = 100;
/** Length in UTF-8 of one UTF-16 code unit. */
const bytesPerCodeMax = 3;
/** Bytes that may wait for a slow reader of stderr; lines beyond are dropped to bound the memory. */
const pendingBytesMax = 16 * 1024 * 1024;
/** Attempts of the last write, 100 ms apart, while the reader of stderr does not read. */
const lastTries = 10;

/** Pino's destination when it is opened for bytes; its own type has text only. */
interface ByteDestination {
  write(bytes: Uint8Array): void;
  flushSync(): void;
  on(event: "error", run: () => void): void;
}

/**
 * Writes to stderr in the background, in order. Lines are batched here because pino's destination measures its whole
 * batch again with every line; as bytes, because joining many
 * strings costs more the older they are.
 */
export function openStderrSink(): StderrSink {
  let triesLeft = Number.POSITIVE_INFINITY;
  const destination = pino.destination({
    fd: 2,
    sync: false,
    maxLength: pendingBytesMax,
    retryEAGAIN: () => triesLeft-- > 0,
    contentMode: "buffer",
  }) as unknown as ByteDestination;
  // A closed stderr must not end the service, and the failure cannot be logged.
  destination.on("error", () => {});
  let batch = Buffer.allocUnsafeSlow(batchBytes);
  let used = 0;
  let flushTimer: NodeJS.Timeout | null = null;
  let ending = false;
  const writeBatch = (): void => {
    if (flushTimer !== null) clearTimeout(flushTimer);
    flushTimer = null;
    if (used === 0) return;
    destination.write(batch.subarray(0, used));
    // The destination keeps the bytes until they are written.
    batch = Buffer.allocUnsafeSlow(batchBytes);
    used = 0;
  };
  return {
    write(line) {
      const bytesMax = line.length * bytesPerCodeMax;
      if (bytesMax > batchBytes - used) writeBatch();
      if (bytesMax > batchBytes) destination.write(Buffer.from(line));
      else used += batch.write(line, used);
      // After `flush` lines are passed on immediately: the destination writes them when the process exits.
      if (ending) writeBatch();
      else flushTimer ??= setTimeout(writeBatch, batchMs).unref();
    },
    writeBytes(lines) {
      writeBatch();
      destination.write(lines);
    },
    flush() {
      ending = true;
      triesLeft = lastTries;
      try {
        writeBatch();
        destination.flushSync();
      } catch {
        // Stderr is blocked or closed: the process ends without these lines.
      }
    },
  };
}
