import { readFile } from "node:fs/promises";
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

/**
 * Reads each secret from its variable or from the file that `<name>_FILE` names; one line break at the end of the file
 * is ignored. Rejects with ConfigError, which never shows the value.
 */
export async function readSecrets(variables: Variables): Promise<Secrets> {
  const problems: ConfigProblem[] = [];
  const read = async (name: SecretName): Promise<string | null> => {
    const found = await readSecret(name, variables);
    if ("message" in found) {
      problems.push({ line: null, column: null, path: found.path, message: found.message, hint: null });
      return null;
    }
    return found.secret;
  };
  const adminToken = await read("UIS_ADMIN_TOKEN");
  const bootstrapApiKey = await read("UIS_BOOTSTRAP_API_KEY");
  const adminPassword = await read("UIS_ADMIN_PASSWORD");
  const masterKeyText = await read("UIS_MASTER_KEY");
  if (problems.length > 0) throw new ConfigError(problems, null);
  const masterKey = masterKeyText === null ? null : Buffer.from(masterKeyText, "base64");
  return { adminToken, bootstrapApiKey, adminPassword, masterKey };
}

type Found = { readonly secret: string | null } | { readonly path: string; readonly message: string };

async function readSecret(name: SecretName, variables: Variables): Promise<Found> {
  const fileName = `${name}_FILE`;
  const plain = variables[name] || undefined;
  const file = variables[fileName] || undefined;
  if (plain !== undefined && file !== undefined) {
    return { path: name, message: `is set, and ${fileName} too: set one of them` };
  }
  if (file === undefined) return checked(name, name, plain ?? null);
  try {
    return checked(fileName, name, (await readFile(file, "utf8")).replace(/\r?\n$/, ""));
  } catch (error) {
    return { path: fileName, message: `cannot be read: ${error instanceof Error ? error.message : String(error)}` };
  }
}

function checked(path: string, name: SecretName, secret: string | null): Found {
  const form: Form = forms[name];
  return secret === null || form.matches(secret) ? { secret } : { path, message: form.wanted };
}
