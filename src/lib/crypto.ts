import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  randomBytes,
  scrypt,
  timingSafeEqual,
} from "node:crypto";
import { crc32 } from "node:zlib";

/** CRC-32 as zip and gzip use it, 0 to 2^32 - 1. */
export { crc32 } from "node:zlib";

/** SHA-256 of the text's UTF-8 bytes, lower-case hex. */
export function sha256Hex(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Whether two digests of the same kind are equal, in constant time. */
export function isSameDigest(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(a, "latin1"), Buffer.from(b, "latin1"));
}

/** SHA-1 of the text's UTF-8 bytes, lower-case hex: for names, not for security. */
export function sha1Hex(text: string): string {
  return createHash("sha1").update(text).digest("hex");
}

/** Costs of scrypt. They are part of a stored hash, so that they can be raised while older hashes stay readable. */
type Costs = readonly [log2N: number, blockSize: number, parallelism: number];

/** 128 MiB and some tenths of a second per password. */
const currentCosts: Costs = [17, 8, 1];
const saltBytes = 16;
const keyBytes = 32;
/** `scrypt:1:<log2 N>:<r>:<p>:<salt>:<key>`, the last two in base64url. */
const passwordHashForm = /^scrypt:1:(\d{2}):(\d{1,2}):(\d):([\w-]{22}):([\w-]{43})$/;
/** Bounds the cost of a stored hash. */
const log2NMax = 20;

/** A hash that no password matches; comparing with it takes as long as with any other. */
export const noPassword = passwordHashText(currentCosts, Buffer.alloc(saltBytes), Buffer.alloc(keyBytes));

/** Hashes a password with a random salt. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(saltBytes);
  return passwordHashText(currentCosts, salt, await derive(password, salt, currentCosts));
}

/** Whether a password matches a hash. Rejects when `hash` is not a text of hashPassword. */
export async function isPassword(password: string, hash: string): Promise<boolean> {
  const [, log2N, blockSize, parallelism, salt = "", key = ""] = passwordHashForm.exec(hash) ?? [];
  if (!(Number(log2N) <= log2NMax)) throw new Error("a stored password hash has an unknown form");
  const costs: Costs = [Number(log2N), Number(blockSize), Number(parallelism)];
  const derived = await derive(password, Buffer.from(salt, "base64url"), costs);
  return timingSafeEqual(derived, Buffer.from(key, "base64url"));
}

function passwordHashText(costs: Costs, salt: Buffer, key: Buffer): string {
  return `scrypt:1:${costs.join(":")}:${salt.toString("base64url")}:${key.toString("base64url")}`;
}

/** Normalizes the password first: keyboards produce different code points for the same characters. */
function derive(password: string, salt: Buffer, [log2N, blockSize, parallelism]: Costs): Promise<Buffer> {
  // The memory of scrypt itself and a reserve.
  const maxmem = 128 * 2 ** log2N * blockSize * parallelism + 4 * 1024 * 1024;
  const options = { N: 2 ** log2N, r: blockSize, p: parallelism, maxmem };
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

/** The text was encrypted with another key or for another record, or was modified. */
export class UnsealError extends Error {
  override readonly name = "UnsealError";
}

/**
 * Encrypts secrets that must be readable later, with AES-256-GCM (USE-16). A secret that is encrypted for one owner, the id
 * of a record, cannot be decrypted for another. One byte identifies the key, to detect a changed key.
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

  /** Encrypts a secret for an owner; returns base64. */
  seal(secret: string, owner: string): string {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce, { authTagLength: tagBytes });
    cipher.setAAD(Buffer.from(owner, "utf8"));
    const head = Buffer.from([version, this.#keyId]);
    const sealed = Buffer.concat([head, nonce, cipher.update(secret, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return sealed.toString("base64");
  }

  /** Decrypts a secret. Throws UnsealError, which reveals nothing about the secret. */
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

/** A multiple of 3, so that base64 needs no padding. */
const blockBytes = 3072;

/**
 * Ids from the system's secure random numbers. A request id begins with its time (48 bits of milliseconds, as in UUIDv7),
 * because ascending ids change few pages of a store's index, and random ones a page each; 80 bits are random.
 */
export function createRandomIds(): { requestId(): string; text(prefix: string, length?: number): string } {
  const takeHex = createPool(() => randomBytes(blockBytes).toString("hex"));
  // All 64 characters of base64 are equally likely, so the 62 that remain without `+` and `/` are equally likely too.
  const takeText = createPool(() => randomBytes(blockBytes).toString("base64").replace(/[+/]/g, ""));
  let timeMs = 0;
  let timeHex = "";
  return {
    requestId() {
      const nowMs = Date.now();
      if (nowMs !== timeMs) {
        timeMs = nowMs;
        timeHex = nowMs.toString(16).padStart(12, "0");
      }
      return `req_${timeHex}${takeHex(20)}`;
    },
    text: (prefix, length = 24) => prefix + takeText(length),
  };
}

/** Returns successive parts of random text. It is created in blocks, because each system call is expensive. */
function createPool(makeBlock: () => string): (length: number) => string {
  let block = "";
  let used = 0;
  return (length) => {
    while (block.length - used < length) {
      block = block.slice(used) + makeBlock();
      used = 0;
    }
    used += length;
    return block.slice(used - length, used);
  };
}

/**
 * One line of an append-only file with a checksum: `<bytes> <crc32> <text>`. The text has no line
 * break. A torn write, a block of zeros or an edited line fails the check, and the lines around it stay readable.
 */
export function toCheckedLine(text: string): string {
  return `${Buffer.byteLength(text)} ${checksumOf(text)} ${text}\n`;
}

/** The text of a line (without its break); null when the line is damaged. */
export function fromCheckedLine(line: string): string | null {
  const [, bytes, checksum, text] = lineForm.exec(line) ?? [];
  if (text === undefined || Buffer.byteLength(text) !== Number(bytes)) return null;
  return checksumOf(text) === checksum ? text : null;
}

const lineForm = /^(\d{1,10}) ([0-9a-f]{8}) (.*)$/s;

function checksumOf(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}

/**
 * A text with its signature, for a header: the text and an HMAC-SHA256 in base64url, with a dot between them. The signature
 * also covers `context`, which the receiver has from elsewhere. Without a secret the signature is empty.
 */
export function signText(secret: string | null, text: string, context: string): string {
  const encoded = Buffer.from(text).toString("base64url");
  return `${encoded}.${secret === null ? "" : signatureOf(secret, encoded, context).toString("base64url")}`;
}

/** The text that `signText` signed; null if its signature is wrong. Secret null: any signature is accepted. */
export function readSignedText(secret: string | null, signed: string, context: string): string | null {
  const dot = signed.indexOf(".");
  if (dot < 0) return null;
  const encoded = signed.slice(0, dot);
  if (secret !== null) {
    const given = Buffer.from(signed.slice(dot + 1), "base64url");
    const wanted = signatureOf(secret, encoded, context);
    if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return null;
  }
  return Buffer.from(encoded, "base64url").toString();
}

function signatureOf(secret: string, encoded: string, context: string): Buffer {
  // The separator does not occur in base64url, so the limit between text and context cannot be moved.
  return createHmac("sha256", secret).update(`${encoded}\n${context}`).digest();
}
