import {
  createCipheriv,
  createDecipheriv,
  createHash,
  randomBytes,
  type ScryptOptions,
  scrypt,
  timingSafeEqual,
} from "node:crypto";

/** CRC-32 as zip and gzip use it, 0 to 2^32 - 1. */
export { crc32 } from "node:zlib";

/** SHA-256 of the text's UTF-8 bytes, lower-case hex. */
export function sha256Hex(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Whether two digests of sha256Hex are equal, in a time that does not tell where they differ. */
export function isSameDigest(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(a, "latin1"), Buffer.from(b, "latin1"));
}

/** SHA-1 of the text's UTF-8 bytes, lower-case hex: to name things, where no secret hangs on it. */
export function sha1Hex(text: string): string {
  return createHash("sha1").update(text).digest("hex");
}

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

/** Version, key id, nonce, then ciphertext, then tag. */
const version = 1;
const nonceBytes = 12;
const tagBytes = 16;
const headBytes = 2 + nonceBytes;

/** A text that was not sealed by this key, or not for this owner, or was changed since. */
export class UnsealError extends Error {
  override readonly name = "UnsealError";
}

/**
 * Keeps secrets that must be read again, encrypted with AES-256-GCM (USE-16). What is sealed for one owner, the id of a
 * record, cannot be opened as another's. A byte names the key, so that keys can be told apart when they are changed.
 */
export class SecretBox {
  readonly #key: Buffer;
  readonly #keyId: number;

  /** `key` has 32 bytes. */
  constructor(key: Buffer) {
    if (key.length !== 32) throw new RangeError(`a master key has 32 bytes, not ${key.length}`);
    this.#key = key;
    this.#keyId = createHash("sha256").update(key).digest().readUInt8(0);
  }

  /** Base64. */
  seal(secret: string, owner: string): string {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce, { authTagLength: tagBytes });
    cipher.setAAD(Buffer.from(owner, "utf8"));
    const head = Buffer.from([version, this.#keyId]);
    const sealed = Buffer.concat([head, nonce, cipher.update(secret, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return sealed.toString("base64");
  }

  /** Throws UnsealError, which says nothing of the secret. */
  open(sealed: string, owner: string): string {
    const bytes = Buffer.from(sealed, "base64");
    if (bytes.length < headBytes + tagBytes || bytes[0] !== version) {
      throw new UnsealError("it is not a sealed secret of this version");
    }
    if (bytes[1] !== this.#keyId) throw new UnsealError("it was sealed with another master key");
    const decipher = createDecipheriv("aes-256-gcm", this.#key, bytes.subarray(2, headBytes), {
      authTagLength: tagBytes,
    });
    decipher.setAAD(Buffer.from(owner, "utf8"));
    decipher.setAuthTag(bytes.subarray(-tagBytes));
    try {
      return decipher.update(bytes.subarray(headBytes, -tagBytes), undefined, "utf8") + decipher.final("utf8");
    } catch (cause) {
      throw new UnsealError("it was sealed with another master key, for another record, or was changed", { cause });
    }
  }
}
