/** One fault of the configuration, as `uis config check --json` prints it. */
export interface ConfigProblem {
  /** From 1; null when the value did not come from a file. */
  readonly line: number | null;
  readonly column: number | null;
  /** `models[0].slots`; empty for the file as a whole. */
  readonly path: string;
  readonly message: string;
  /** What to write instead, when there is a likely answer. */
  readonly hint: string | null;
}

export type SettingPath = readonly (string | number)[];

/** `["models", 0, "slots"]` as `models[0].slots`. */
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
  /** The file that was read; null when there was none. */
  readonly file: string | null;

  constructor(problems: readonly ConfigProblem[], file: string | null) {
    super(problems.map((problem) => formatProblem(problem, file)).join("\n"));
    this.problems = problems;
    this.file = file;
  }
}

/** One line for people: `uis.yaml:3:5: models[0].slot: unknown setting (did you mean "slots"?)`. */
export function formatProblem(problem: ConfigProblem, file: string | null): string {
  const place = problem.line === null || file === null ? "" : `${file}:${problem.line}:${problem.column ?? 1}: `;
  const path = problem.path === "" ? "" : `${problem.path}: `;
  const hint = problem.hint === null ? "" : ` (${problem.hint})`;
  return `${place}${path}${problem.message}${hint}`;
}
