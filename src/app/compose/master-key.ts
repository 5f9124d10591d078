import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { SettingsStore } from "../../domain/access/administrator.js";
import type { State } from "../../domain/service/state.js";
import { SecretBox, UnsealError } from "../../lib/crypto.js";
import { StartError } from "../process/lifecycle.js";

const fileName = "master.key";
const keyForm = /^[A-Za-z0-9+/]{43}=$/;

/**
 * The master key: the operator's own (UIS_MASTER_KEY), else the one of the data folder, made there once with mode 0600.
 * Replicas that share a store must share the key, so none is made for them (USE-17); state in memory needs none that
 * outlives it. Rejects with StartError.
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
      "UIS_MASTER_KEY is not set: replicas that share a Redis need one key for what is kept encrypted",
      "set it, or UIS_MASTER_KEY_FILE, to the same value everywhere: openssl rand -base64 32",
    );
  }
  const file = join(dataDir, fileName);
  if ((await settings.get("secrets.canary")) !== null) return await readKey(file);
  const made = randomBytes(32);
  try {
    await writeFile(file, `${made.toString("base64")}\n`, { mode: 0o600, flag: "wx", flush: true });
    return made;
  } catch (cause) {
    if (!isTaken(cause)) throw unusable(file, cause);
  }
  return await readKey(file);
}

async function readKey(file: string): Promise<Buffer> {
  let text: string;
  try {
    text = (await readFile(file, "utf8")).trim();
  } catch (cause) {
    if (isMissing(cause)) throw lost(file, cause);
    throw unusable(file, cause);
  }
  if (!keyForm.test(text)) {
    throw new StartError(
      `${file} does not hold a master key`,
      "put back the key that was there (base64 of 32 bytes); without it, what was encrypted cannot be read again",
    );
  }
  return Buffer.from(text, "base64");
}

const canaryOwner = "secrets.canary";

/**
 * Shows that this key opens what the store holds, before anything is encrypted with a wrong one (USE-18). Rejects with
 * StartError.
 */
export async function openSecretBox(masterKey: Buffer, settings: SettingsStore): Promise<SecretBox> {
  const box = new SecretBox(masterKey);
  await settings.put("secrets.canary", box.seal("canary", canaryOwner), null);
  const kept = await settings.get("secrets.canary");
  if (kept === null) throw new Error("the store lost what it was just given");
  try {
    box.open(kept.value, canaryOwner);
  } catch (cause) {
    if (!(cause instanceof UnsealError)) throw cause;
    throw new StartError(
      "the master key is not the one that this store's secrets were encrypted with",
      "set UIS_MASTER_KEY (or data/master.key) to the former key",
      { cause },
    );
  }
  return box;
}

function isTaken(cause: unknown): boolean {
  return cause instanceof Error && "code" in cause && cause.code === "EEXIST";
}

function isMissing(cause: unknown): boolean {
  return cause instanceof Error && "code" in cause && cause.code === "ENOENT";
}

function lost(file: string, cause: unknown): StartError {
  return new StartError(
    `${file} is gone, and with it the key of what this store keeps encrypted`,
    "put it back from a backup, or set UIS_MASTER_KEY to the key that it held",
    { cause },
  );
}

function unusable(file: string, cause: unknown): StartError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new StartError(
    `the master key cannot be kept in ${file}: ${why}`,
    "make the data folder writable, or set UIS_MASTER_KEY",
    {
      cause,
    },
  );
}
