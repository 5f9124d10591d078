import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { SettingsStore } from "../../domain/access/administrator.js";
import type { State } from "../../domain/service/state.js";
import { SecretBox, UnsealError } from "../../lib/crypto.js";
import { errorText } from "../../lib/display-text.js";
import { fileFaultOf } from "../../lib/file-faults.js";
import { StartError } from "../process/lifecycle.js";

const keyForm = /^[A-Za-z0-9+/]{43}=$/;

/**
 * The master key: the operator's own (UIS_MASTER_KEY), else the one in the data folder, created there once with mode 0600.
 * Replicas that share a store must share the key, so none is created for them (USE-17); for state in memory a
 * new key is generated at each start. Rejects with StartError.
 */
export async function loadMasterKey(
  configured: Buffer | null,
  dataDir: string,
  { kind, settings }: Pick<State, "kind" | "settings">,
): Promise<Buffer> {
  if (configured !== null) return configured;
  if (kind === "volatile") return randomBytes(32);
  if (kind === "redis") {
    throw new StartError(
      "UIS_MASTER_KEY is not set: replicas that share a Redis need the same key for encrypted secrets",
      "set it, or UIS_MASTER_KEY_FILE, to the same value everywhere: openssl rand -base64 32",
    );
  }
  const file = keyFile(dataDir);
  if ((await settings.get(canaryName)) !== null) return await readKey(file);
  const created = randomBytes(32);
  try {
    await writeFile(file, `${created.toString("base64")}\n`, { mode: 0o600, flag: "wx", flush: true });
    return created;
  } catch (cause) {
    if (codeOf(cause) !== "EEXIST") throw unusable(file, cause);
    return await readKey(file);
  }
}

export function keyFile(dataDir: string): string {
  return join(dataDir, "master.key");
}

/** The master key of an embedded store that exists; none is created. Rejects with StartError if it cannot be read. */
export async function readMasterKey(configured: Buffer | null, dataDir: string): Promise<Buffer> {
  return configured ?? (await readKey(keyFile(dataDir)));
}

async function readKey(file: string): Promise<Buffer> {
  const text = await readFile(file, "utf8").catch((cause: unknown) => {
    if (codeOf(cause) !== "ENOENT") throw unusable(file, cause);
    throw new StartError(
      `${file} is missing, the key of the encrypted secrets in this store`,
      "restore it from a backup, or set UIS_MASTER_KEY to the key that it contained",
      { cause },
    );
  });
  if (keyForm.test(text.trim())) return Buffer.from(text, "base64");
  throw new StartError(
    `${file} does not contain a master key`,
    "restore the former key (base64 of 32 bytes); without it, encrypted secrets cannot be read again",
  );
}

function codeOf(cause: unknown): unknown {
  return cause instanceof Error && "code" in cause ? cause.code : null;
}

function unusable(file: string, cause: unknown): StartError {
  const fault = fileFaultOf(cause);
  const fix = fault?.fix ?? "make the data folder writable";
  const text = `the master key in ${file} cannot be read or written: ${fault?.cause ?? errorText(cause)}`;
  return new StartError(text, `${fix}, or set UIS_MASTER_KEY`, { cause });
}

/** Whether the store's canary, a known text, was encrypted with this key. */
export function isKeyOf(masterKey: Buffer, canary: string): boolean {
  try {
    new SecretBox(masterKey).open(canary, canaryName);
    return true;
  } catch (error) {
    if (error instanceof UnsealError) return false;
    throw error;
  }
}

/** Name of the setting that holds the canary, a known text that is encrypted with the master key. */
const canaryName = "secrets.canary";

/**
 * Decrypts the store's canary, so that a wrong master key is found before anything is encrypted with it (USE-18).
 * Rejects with StartError.
 */
export async function openSecretBox(masterKey: Buffer, settings: SettingsStore): Promise<SecretBox> {
  const box = new SecretBox(masterKey);
  await settings.put(canaryName, box.seal("canary", canaryName), null);
  const stored = await settings.get(canaryName);
  if (stored === null) throw new Error("a setting that was just written is missing in the store");
  if (isKeyOf(masterKey, stored.value)) return box;
  throw new StartError(
    "the master key is not the one that this store's secrets were encrypted with",
    "set UIS_MASTER_KEY (or data/master.key) to the former key",
  );
}
