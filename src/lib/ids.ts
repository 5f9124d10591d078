import { randomBytes } from "node:crypto";

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/** Bytes at or above this are drawn again, so that every character is equally likely. */
const unbiasedMax = 256 - (256 % alphabet.length);
const poolBytes = 4096;

/** Random bytes in order of use; refilled in blocks, because one system call per id is what costs. */
function createPool(): (count: number) => Uint8Array {
  let pool = randomBytes(poolBytes);
  let used = 0;
  return (count) => {
    if (used + count > pool.length) {
      pool = randomBytes(Math.max(poolBytes, count));
      used = 0;
    }
    used += count;
    return pool.subarray(used - count, used);
  };
}

/** Ids from the system's secure random numbers. */
export function createRandomIds(): { requestId(): string; text(prefix: string, length?: number): string } {
  const take = createPool();
  return {
    requestId: () => `req_${Buffer.from(take(16)).toString("hex")}`,
    text(prefix, length = 24) {
      let id = prefix;
      for (let missing = length; missing > 0; missing = prefix.length + length - id.length) {
        for (const byte of take(missing)) if (byte < unbiasedMax) id += alphabet[byte % alphabet.length];
      }
      return id;
    },
  };
}
