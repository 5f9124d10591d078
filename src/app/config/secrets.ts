import { readFileSync } from "node:fs";
import { errorText } from "../../lib/display-text.js";
import type { Variables } from "./expand.js";
import { ConfigError, type ConfigProblem, problemAt } from "./problem.js";

/** Secrets of the operator's own choice, from the environment only. */
export interface Secrets {
  /** Bearer credential of administrators; null: only the token that the process generates is valid. */
  readonly adminToken: string | null;
  /** An API key to register instead of generating one at the first start. */
  readonly bootstrapApiKey: string | null;
  /** The administrator's password for the dashboard; null: it is set by the set-up link. */
  readonly adminPassword: string | null;
  /** 32 bytes that encrypt stored secrets; null: generated once in the data folder if no store is shared. */
  readonly masterKey: Buffer | null;
}

const formats = {
  UIS_ADMIN_TOKEN: { form: /^[\x21-\x7e]{16,256}$/, wanted: "must be 16 to 256 printable characters without spaces" },
  UIS_BOOTSTRAP_API_KEY: {
    form: /^[\x21-\x7e]{8,256}$/,
    wanted: "must be 8 to 256 printable characters without spaces",
  },
  UIS_ADMIN_PASSWORD: { form: /^[\s\S]{12,1024}$/, wanted: "must be 12 to 1024 characters" },
  UIS_MASTER_KEY: { form: /^[A-Za-z0-9+/]{43}=$/, wanted: "must be the base64 form of 32 bytes" },
} as const;

/** Reads each secret from its variable or its file. Throws a ConfigError, which never contains the value. */
export function readSecrets(variables: Variables): Secrets {
  const problems: ConfigProblem[] = [];
  const read = (name: keyof typeof formats): string | null => {
    const found = readSecretText(name, variables);
    if ("problem" in found) {
      problems.push(found.problem);
      return null;
    }
    const { form, wanted } = formats[name];
    if (found.text !== null && !form.test(found.text)) problems.push(problemAt(found.from, wanted));
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

/** A secret's text, or the problem of its variable or file. */
export type SecretText =
  | {
      /** Text of the secret; null: not set. */
      readonly text: string | null;
      /** The variable with the value or with the file's name, for error messages. */
      readonly from: string;
    }
  | { readonly problem: ConfigProblem };

/** Reads a variable, or the file that `<name>_FILE` names, without one line break at its end. An empty variable is not set. */
export function readSecretText(name: string, variables: Variables): SecretText {
  const fileName = secretFileName(name);
  const plain = variables[name] || undefined;
  const file = variables[fileName] || undefined;
  if (file === undefined) return { text: plain ?? null, from: name };
  if (plain !== undefined) return { problem: problemAt(name, `is set, and ${fileName} too: set one of them`) };
  try {
    const text = readFileSync(file, "utf8").replace(/\r?\n$/, "");
    if (text !== "") return { text, from: fileName };
    return { problem: problemAt(fileName, `${file} is empty`, `write the value into it, or unset ${fileName}`) };
  } catch (error) {
    const fix = "correct the path, or make the file readable for this user";
    return { problem: problemAt(fileName, `cannot be read: ${errorText(error)}`, fix) };
  }
}

export function secretFileName(name: string): string {
  return `${name}_FILE`;
}
