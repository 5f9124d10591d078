import { describe, expect, it } from "vitest";
import { isSameDigest, sha256Hex } from "../../../src/lib/crypto.js";

describe("digest", () => {
  it("is SHA-256 of the UTF-8 bytes in lower-case hex", () => {
    expect(sha256Hex("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  });

  it("is equal only to the same digest in isSameDigest", () => {
    expect(isSameDigest(sha256Hex("secret"), sha256Hex("secret"))).toBe(true);
    expect(isSameDigest(sha256Hex("secret"), sha256Hex("secreT"))).toBe(false);
  });
});
