import type { Logger } from "../../domain/call/ports.js";

/** Characters of a line that are kept; the rest of it is dropped. */
const lineCharsMax = 1_000;
/** Lines that are remembered, to say what a child wrote before it died. */
const lastLinesMax = 5;
const alarming = /error|fail|fatal|assert|exception|abort/i;
/** Escape sequences of terminals, and control characters, which could forge lines where logs are shown raw. */
const controls = /\p{Cc}\[[\d;]*[A-Za-z]|\p{Cc}/gu;

/** Takes what a child writes to its standard error and logs it by lines: alarming ones as warnings, others for debugging. */
export class StderrLog {
  readonly #log: Logger;
  readonly #fields: object;
  readonly #lastLines: string[] = [];
  #unfinished = "";

  constructor(log: Logger, fields: object) {
    this.#log = log;
    this.#fields = fields;
  }

  /** The newest lines, oldest first. */
  get lastLines(): readonly string[] {
    return this.#lastLines;
  }

  push(text: string): void {
    const lines = (this.#unfinished + text).split("\n");
    this.#unfinished = (lines.pop() ?? "").slice(0, lineCharsMax);
    for (const line of lines) this.#say(line);
  }

  end(): void {
    this.#say(this.#unfinished);
    this.#unfinished = "";
  }

  #say(raw: string): void {
    const line = raw.slice(0, lineCharsMax).replace(controls, "").trim();
    if (line === "") return;
    this.#lastLines.push(line);
    if (this.#lastLines.length > lastLinesMax) this.#lastLines.shift();
    const level = alarming.test(line) ? "warn" : "debug";
    this.#log[level]({ ...this.#fields, line }, "engine process wrote");
  }
}
