import { createHash, timingSafeEqual } from "node:crypto";

/** SHA-256 of the text's UTF-8 bytes, lower-case hex. */
export function sha256Hex(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Whether two secrets are equal, in a time that tells neither where they differ nor how long they are. */
export function isSameSecret(a: string, b: string): boolean {
  return timingSafeEqual(createHash("sha256").update(a).digest(), createHash("sha256").update(b).digest());
}
