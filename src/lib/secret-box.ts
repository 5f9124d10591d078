import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";

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
