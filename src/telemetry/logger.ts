import { pino } from "pino";
import type { Logger } from "../domain/ports.js";

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "silent";

/** Where lines go. Each line is one JSON object and ends with a line break. */
export interface LogSink {
  write(line: string): void;
}

export interface LoggerOptions {
  /** The least that is written. */
  readonly level: LogLevel;
  readonly sink: LogSink;
}

/** Fields that hold secrets wherever they turn up, whatever the caller meant by them. */
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
 * A secret field with its value, a string or a list, at any depth of a line. Looked for in the finished line, because
 * pino's own redaction by path costs 35 µs a line with wildcards, on the path of every request.
 */
const secretField = new RegExp(`"(${secretFields.join("|")})":(?:"(?:[^"\\\\]|\\\\.)*"|\\[[^\\]]*\\])`, "gi");

/** The text of a key or bearer credential inside of other text, e.g. of an error's message. */
const credentialText = /\b(sk-uis-|bearer\s+)[^\s"'\\]+/gi;

/** JSON lines for machines: `level` by name, `time` as ISO 8601, no secret (SEC-18, KEY-18). */
export function createLogger({ level, sink }: LoggerOptions): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => sink.write(withoutSecrets(line)) },
  );
}

function withoutSecrets(line: string): string {
  return line.replace(secretField, '"$1":"[redacted]"').replace(credentialText, "$1[redacted]");
}

/** Lines that may wait for a slow reader of stderr; what comes beyond is dropped, for it must not take the memory. */
const pendingBytesMax = 16 * 1024 * 1024;

export interface StderrSink extends LogSink {
  /** Writes what is pending, before the process ends. Gives up on a reader that does not read. */
  flush(): void;
}

/** Lines are written together, when there are this many bytes or when the time is over. */
const togetherBytes = 4 * 1024;
const togetherMs = 100;

/** How often a last write is tried, 100 ms apart, while stderr's reader does not read. */
const lastTries = 10;

/** Writes to stderr in the background, in order. */
export function openStderrSink(): StderrSink {
  let triesLeft = Number.POSITIVE_INFINITY;
  const destination = pino.destination({
    fd: 2,
    sync: false,
    minLength: togetherBytes,
    periodicFlush: togetherMs,
    maxLength: pendingBytesMax,
    retryEAGAIN: () => triesLeft-- > 0,
  });
  // A closed stderr must not take the service down, and there is nowhere left to tell it.
  destination.on("error", () => {});
  return {
    write: (line) => destination.write(line),
    flush() {
      triesLeft = lastTries;
      try {
        destination.flushSync();
      } catch {
        // The reader is stuck or gone: the process ends without these lines.
      }
    },
  };
}
