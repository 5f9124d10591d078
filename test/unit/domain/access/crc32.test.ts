import { describe, expect, it } from "vitest";
import { crc32 } from "../../../../src/lib/crypto.js";

describe("crc32", () => {
  it("agrees with the published check value", () => {
    expect(crc32(Buffer.from("123456789"))).toBe(0xcbf43926);
  });

  it("is 0 for empty input and unsigned for every input", () => {
    expect(crc32(new Uint8Array())).toBe(0);
    expect(crc32(Buffer.from("a"))).toBe(0xe8b7be43);
  });
});
