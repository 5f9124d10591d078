import { printableLine } from "../../lib/display-text.js";
import { type CliIo, hasColors, type TextOutput } from "./cli-io.js";

/** Meaning of a text, which a terminal shows as a colour. */
export type Tone = "good" | "warning" | "bad" | "faint" | "strong";

/** Parameters of the SGR control sequence. */
const sgr: Readonly<Record<Tone, number>> = { good: 32, warning: 33, bad: 31, faint: 2, strong: 1 };

/** Adds the colour of a meaning to a text. */
export type Paint = (tone: Tone, text: string) => string;

/** Colours for a terminal; without one, or with NO_COLOR or TERM=dumb, the text stays as it is. */
export function paintFor(output: TextOutput, env: CliIo["env"]): Paint {
  return hasColors(output, env)
    ? (tone, text) => (text === "" ? "" : `\u001b[${sgr[tone]}m${text}\u001b[0m`)
    : (_, text) => text;
}

/** Text of a cell, with its meaning if it has one. */
export type Cell = string | readonly [tone: Tone, text: string];

/** Title of a column; numbers are aligned to the right. */
export type Column = string | { readonly title: string; readonly align: "right" };

/** A column of numbers. */
export function numeric(title: string): Column {
  return { title, align: "right" };
}

/**
 * A header and one line for each row; each column is as wide as its widest cell. Without rows there are no lines. Control
 * characters of cells are removed.
 */
export function tableLines(
  { stdout, env }: Pick<CliIo, "stdout" | "env">,
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
): readonly string[] {
  if (rows.length === 0) return [];
  const paint = paintFor(stdout, env);
  const head = columns.map((column): Cell => ["strong", typeof column === "string" ? column : column.title]);
  const cells = [head, ...rows].map((row) => row.map(toParts));
  const widths = columns.map((_, i) => Math.max(...cells.map((row) => row[i]?.text.length ?? 0)));
  return cells.map((row) => {
    const padded = row.map(({ tone, text }, i) => {
      const space = " ".repeat((widths[i] ?? 0) - text.length);
      const shown = tone === null ? text : paint(tone, text);
      return typeof columns[i] === "object" ? space + shown : shown + space;
    });
    return padded.join("  ").trimEnd();
  });
}

function toParts(cell: Cell): { readonly tone: Tone | null; readonly text: string } {
  const [tone, text] = typeof cell === "string" ? [null, cell] : cell;
  return { tone, text: printableLine(text) };
}

/** Lines of names and values, such as a new key and its secret. */
export function factLines(facts: readonly (readonly [name: string, value: string])[]): readonly string[] {
  const width = Math.max(0, ...facts.map(([name]) => name.length));
  return facts.map(([name, value]) => `${name.padEnd(width)}  ${value}`.trimEnd());
}
