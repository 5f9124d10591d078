import type { TextOutput } from "./cli-io.js";

/** Width of a terminal that does not state it. */
export const columnsDefault = 80;

/** Moves the cursor to the beginning of the line, and erases from there to the end of the screen. */
const eraseBelow = "\r\u001b[J";

/**
 * Rows at the bottom of a terminal that are drawn again when they change; other text is written above them. All texts that go
 * to this terminal must be written through one object, or they are erased with the rows.
 */
export class LiveRows {
  readonly #output: TextOutput;
  #rows: readonly string[] = [];

  constructor(output: TextOutput) {
    this.#output = output;
  }

  /** Replaces the rows; a row that is too long for the terminal is cut. */
  show(rows: readonly string[]): void {
    // The last column stays free, so that a terminal does not wrap.
    const width = (this.#output.columns ?? columnsDefault) - 1;
    const cut = rows.map((row) => row.slice(0, width));
    if (cut.join("\n") === this.#rows.join("\n")) return;
    const erase = this.#erase();
    this.#rows = cut;
    this.#output.write(erase + cut.join("\n"));
  }

  /** Writes a text that ends with a line break above the rows. */
  write(text: string): void {
    this.#output.write(this.#erase() + text + this.#rows.join("\n"));
  }

  /** Leaves the cursor on an empty line below all text. */
  end(): void {
    this.show([]);
  }

  #erase(): string {
    const up = this.#rows.length - 1;
    return up > 0 ? `\u001b[${up}A${eraseBelow}` : eraseBelow;
  }
}
