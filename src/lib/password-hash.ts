import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from "node:crypto";

/**
 * Passwords as they are kept: `scrypt:1:<log2 N>:<r>:<p>:<salt>:<key>`, the last two in base64url. The costs are part of
 * the text, so that they can be raised and old texts still be read.
 */
interface Parameters {
  readonly logCost: number;
  readonly blockSize: number;
  readonly parallelism: number;
}

/** 128 MiB and some tenths of a second per password. */
const current: Parameters = { logCost: 17, blockSize: 8, parallelism: 1 };
const saltBytes = 16;
const keyBytes = 32;
const keptForm = /^scrypt:1:(\d{2}):(\d{1,2}):(\d):([\w-]{22}):([\w-]{43})$/;
/** A text from the store may not ask for more than this. */
const logCostMax = 20;

/** A kept form of no password at all: comparing with it costs as much as with any other. */
export const noPassword = keptOf(current, Buffer.alloc(saltBytes), Buffer.alloc(keyBytes));

/** Hashes a password with a salt of its own. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(saltBytes);
  return keptOf(current, salt, await derive(password, salt, current));
}

/** Whether a password is the one that was kept. Rejects when `kept` is no text of hashPassword. */
export async function isPassword(password: string, kept: string): Promise<boolean> {
  const [, logCost, blockSize, parallelism, salt = "", key = ""] = keptForm.exec(kept) ?? [];
  const parameters = { logCost: Number(logCost), blockSize: Number(blockSize), parallelism: Number(parallelism) };
  if (!(parameters.logCost <= logCostMax)) throw new Error("a kept password hash has an unknown form");
  const derived = await derive(password, Buffer.from(salt, "base64url"), parameters);
  return timingSafeEqual(derived, Buffer.from(key, "base64url"));
}

function keptOf({ logCost, blockSize, parallelism }: Parameters, salt: Buffer, key: Buffer): string {
  const costs = [logCost, blockSize, parallelism].join(":");
  return `scrypt:1:${costs}:${salt.toString("base64url")}:${key.toString("base64url")}`;
}

/** The same characters typed on another keyboard may be other code points: both are brought to one form. */
function derive(password: string, salt: Buffer, { logCost, blockSize, parallelism }: Parameters): Promise<Buffer> {
  const options: ScryptOptions = { N: 2 ** logCost, r: blockSize, p: parallelism };
  // What the function needs, and a little more for itself.
  options.maxmem = 128 * 2 ** logCost * blockSize * parallelism + 4 * 1024 * 1024;
  return new Promise((resolve, reject) => {
    scrypt(password.normalize("NFC"), salt, keyBytes, options, (error, key) =>
      error === null ? resolve(key) : reject(error),
    );
  });
}
