/** A line and column in a file; both start at 1. */
export interface SourcePosition {
  readonly line: number;
  readonly column: number;
}

/** One problem of the configuration, as `uis config check --json` prints it. */
export interface ConfigProblem {
  /** Null if the value does not come from a file. */
  readonly line: number | null;
  readonly column: number | null;
  /** `models[0].slots`; empty for the file as a whole. */
  readonly path: string;
  readonly message: string;
  /** A likely correction. */
  readonly hint: string | null;
}

export function problemAt(
  path: string,
  message: string,
  hint: string | null = null,
  position: SourcePosition | null = null,
): ConfigProblem {
  return { line: position?.line ?? null, column: position?.column ?? null, path, message, hint };
}

export type SettingPath = readonly (string | number)[];

/** Formats a path: `["models", 0, "slots"]` becomes `models[0].slots`. */
export function formatPath(path: SettingPath): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else text += text === "" ? part : `.${part}`;
  }
  return text;
}

/** The configuration cannot be used. Ends a command with exit code 2. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly problems: readonly ConfigProblem[];
  /** The file that was read; null if there is none. */
  readonly file: string | null;

  constructor(problems: readonly ConfigProblem[], file: string | null) {
    super(problems.map((problem) => formatProblem(problem, file)).join("\n"));
    this.problems = problems;
    this.file = file;
  }
}

/** One line of text: `uis.yaml:3:5: models[0].slot: unknown setting (did you mean "slots"?)`. */
export function formatProblem(problem: ConfigProblem, file: string | null): string {
  const position = problem.line === null || file === null ? "" : `${file}:${problem.line}:${problem.column ?? 1}: `;
  const path = problem.path === "" ? "" : `${problem.path}: `;
  const hint = problem.hint === null ? "" : ` (${problem.hint})`;
  return `${position}${path}${problem.message}${hint}`;
}

/** The most similar known name; null if more than a third of it differs. */
export function nearestName(name: string, known: readonly string[]): string | null {
  const distances = known.map((one) => ({ one, distance: editDistance(name.toLowerCase(), one.toLowerCase()) }));
  const [best] = distances.sort((a, b) => a.distance - b.distance);
  if (best === undefined) return null;
  const allowed = Math.max(1, Math.floor(Math.max(name.length, best.one.length) / 3));
  return best.distance <= allowed ? best.one : null;
}

/** Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. Names only: both are short. */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const replaced = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      const inserted = (current[column - 1] ?? 0) + 1;
      const deleted = (previous[column] ?? 0) + 1;
      const isSwap = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      const swapped = isSwap ? (beforePrevious[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY;
      current.push(Math.min(replaced, inserted, deleted, swapped));
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[b.length] ?? 0;
}
