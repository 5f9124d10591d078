import { readFileSync } from "node:fs";
import type { Variables } from "./expand.js";
import type { ConfigProblem } from "./problem.js";

/** Where a secret was looked for: what its variable or its file holds, or why that cannot be said. */
export type SecretText =
  | {
      /** Null: not set. */
      readonly text: string | null;
      /** The variable that has it or names its file, for people. */
      readonly from: string;
    }
  | { readonly problem: ConfigProblem };

/**
 * A secret's text, from its variable or from the file that `<name>_FILE` names; one line break at the end of the file is
 * ignored. An empty variable counts as not set.
 */
export function readSecretText(name: string, variables: Variables): SecretText {
  const fileName = secretFileName(name);
  const plain = variables[name] || undefined;
  const file = variables[fileName] || undefined;
  if (file === undefined) return { text: plain ?? null, from: name };
  if (plain !== undefined) return { problem: secretProblem(name, `is set, and ${fileName} too: set one of them`) };
  try {
    const text = readFileSync(file, "utf8").replace(/\r?\n$/, "");
    return text === "" ? { problem: secretProblem(fileName, `${file} is empty`) } : { text, from: fileName };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { problem: secretProblem(fileName, `cannot be read: ${reason}`) };
  }
}

/** What is wrong with the secret of a variable. The message never shows the value. */
export function secretProblem(variable: string, message: string): ConfigProblem {
  return { line: null, column: null, path: variable, message, hint: null };
}

export function secretFileName(name: string): string {
  return `${name}_FILE`;
}
