import { type LogSink, openStderrSink } from "../../telemetry/logger.js";
import { prettyFormat } from "../../telemetry/pretty-line.js";
import { type CliIo, hasColors, isPrettyLog } from "../command-line/cli-io.js";
import type { Config } from "../config/schema.js";

/** The longest unfinished line that is kept; a longer one is written in parts. */
const lineBytesMax = 1024 * 1024;
const lineFeed = 0x0a;

/** Merges the logs of several processes: writes whole lines to stderr, in the form of `log.format`. */
export class LogStream implements LogSink {
  readonly #sink = openStderrSink();
  /** Null: the lines are written as they are. */
  readonly #pretty: ((line: string) => string) | null;

  constructor({ stderr, env }: CliIo, { format }: Config["log"]) {
    this.#pretty = isPrettyLog(format, stderr) ? prettyFormat({ colors: hasColors(stderr, env) }) : null;
  }

  write(line: string): void {
    this.#sink.write(this.#pretty === null ? line : this.#pretty(line));
  }

  /** Returns a function for the output of one process, which comes in pieces that may end within a line. */
  reader(): (piece: Buffer) => void {
    let rest: Buffer = Buffer.alloc(0);
    return (piece) => {
      const all = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
      const end = all.length > lineBytesMax ? all.length : all.lastIndexOf(lineFeed) + 1;
      rest = all.subarray(end);
      if (end > 0) this.#writeLines(all.subarray(0, end));
    };
  }

  flush(): void {
    this.#sink.flush();
  }

  #writeLines(lines: Buffer): void {
    if (this.#pretty === null) {
      this.#sink.writeBytes(lines);
      return;
    }
    for (const line of lines.toString().split(/(?<=\n)/)) this.#sink.write(this.#prettyOrAsItIs(line));
  }

  /** Formats a line of the log. Other output, such as messages of Node itself, is returned unchanged. */
  #prettyOrAsItIs(line: string): string {
    try {
      return this.#pretty?.(line) ?? line;
    } catch {
      return line;
    }
  }
}
