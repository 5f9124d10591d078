import { createInterface, type Interface } from "node:readline";

/** Number of earlier lines that Arrow Up shows again. They are in memory only. */
const historySize = 1_000;
/** Maximum number of lines that are typed while an answer is printed; they are read afterwards. */
const linesMax = 10_000;

interface EditorOptions {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
  /** Words that Tab completes at the beginning of a line. */
  readonly words: readonly string[];
}

/** The result of `next` after Ctrl-C. */
export const interrupted = Symbol("interrupted");

type Input = string | typeof interrupted | null;

/** Reads lines from a terminal, with editing, history and completion. */
export class LineEditor {
  readonly #lines: string[] = [];
  readonly #interface: Interface;
  #next: ((line: Input) => void) | null = null;
  #isClosed = false;
  /** Called for Ctrl-C while no line is awaited. */
  onInterrupt: () => void = () => {};

  constructor({ input, output, words }: EditorOptions) {
    const completer = (line: string): [string[], string] => [words.filter((word) => word.startsWith(line)), line];
    this.#interface = createInterface({ input, output, terminal: true, historySize, completer });
    this.#interface.on("line", (line) => this.#take(line));
    this.#interface.on("SIGINT", () => {
      this.#discard();
      if (this.#next === null) this.onInterrupt();
      else this.#next(interrupted);
    });
    this.#interface.once("close", () => {
      this.#isClosed = true;
      this.#next?.(null);
    });
  }

  /** Resolves with the next line, or `interrupted`; null after Ctrl-D or the end of the input. */
  next(prompt: string): Promise<Input> {
    const typed = this.#lines.shift();
    if (typed !== undefined) return Promise.resolve(typed);
    if (this.#isClosed) return Promise.resolve(null);
    this.#interface.setPrompt(prompt);
    this.#interface.prompt();
    return new Promise((resolve) => {
      this.#next = (line) => {
        this.#next = null;
        resolve(line);
      };
    });
  }

  close(): void {
    this.#interface.close();
  }

  #take(line: string): void {
    if (this.#next !== null) this.#next(line);
    else if (this.#lines.length < linesMax) this.#lines.push(line);
  }

  /** Deletes the text of the line, and lines that were typed while an answer was printed. */
  #discard(): void {
    this.#lines.length = 0;
    this.#interface.write(null, { ctrl: true, name: "e" });
    this.#interface.write(null, { ctrl: true, name: "u" });
  }
}
