import { createHash, timingSafeEqual } from "node:crypto";

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
