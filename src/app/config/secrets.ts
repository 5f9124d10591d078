import { readFileSync } from "node:fs";
import type { Variables } from "./expand.js";
import { ConfigError, type ConfigProblem } from "./problem.js";

/** Secrets of the operator's own choosing. They come from the environment only, never from the configuration file. */
export interface Secrets {
  /** Bearer credential of administrators; null: only the one that the process makes for itself. */
  readonly adminToken: string | null;
  /** An API key to register instead of making one at the first start. */
  readonly bootstrapApiKey: string | null;
  /** What the administrator signs in with at the dashboard; null: chosen over the set-up link. */
  readonly adminPassword: string | null;
  /** 32 bytes that encrypt what is kept secret; null: made once in the data folder, where there is no shared store. */
  readonly masterKey: Buffer | null;
}

interface Form {
  readonly matches: (text: string) => boolean;
  readonly wanted: string;
}

const forms = {
  UIS_ADMIN_TOKEN: {
    matches: (text) => /^[\x21-\x7e]{16,256}$/.test(text),
    wanted: "must be 16 to 256 printable characters without spaces",
  },
  UIS_BOOTSTRAP_API_KEY: {
    matches: (text) => /^[\x21-\x7e]{8,256}$/.test(text),
    wanted: "must be 8 to 256 printable characters without spaces",
  },
  UIS_ADMIN_PASSWORD: {
    matches: (text) => text.length >= 12 && text.length <= 1024,
    wanted: "must be 12 to 1024 characters",
  },
  UIS_MASTER_KEY: {
    matches: (text) => /^[A-Za-z0-9+/]{43}=$/.test(text),
    wanted: "must be the base64 form of 32 bytes",
  },
} as const satisfies Record<string, Form>;

type SecretName = keyof typeof forms;

/** Reads each secret from its variable or its file. Throws ConfigError, which never shows the value. */
export function readSecrets(variables: Variables): Secrets {
  const problems: ConfigProblem[] = [];
  const read = (name: SecretName): string | null => {
    const found = readSecretText(name, variables);
    if ("problem" in found) {
      problems.push(found.problem);
      return null;
    }
    const form: Form = forms[name];
    if (found.text !== null && !form.matches(found.text)) problems.push(secretProblem(found.from, form.wanted));
    return found.text;
  };
  const adminToken = read("UIS_ADMIN_TOKEN");
  const bootstrapApiKey = read("UIS_BOOTSTRAP_API_KEY");
  const adminPassword = read("UIS_ADMIN_PASSWORD");
  const masterKeyText = read("UIS_MASTER_KEY");
  if (problems.length > 0) throw new ConfigError(problems, null);
  const masterKey = masterKeyText === null ? null : Buffer.from(masterKeyText, "base64");
  return { adminToken, bootstrapApiKey, adminPassword, masterKey };
}

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
function secretProblem(variable: string, message: string): ConfigProblem {
  return { line: null, column: null, path: variable, message, hint: null };
}

export function secretFileName(name: string): string {
  return `${name}_FILE`;
}
