import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { SecretBox, UnsealError } from "../../../src/lib/crypto.js";

describe("SecretBox", () => {
  const box = new SecretBox(randomBytes(32));

  it("decrypts what it encrypted, and encrypts the same secret differently each time (USE-16)", () => {
    const sealed = box.seal("whsec_ä", "we_1");
    expect(box.open(sealed, "we_1")).toBe("whsec_ä");
    expect(box.seal("whsec_ä", "we_1")).not.toBe(sealed);
    expect(Buffer.from(sealed, "base64").toString("latin1")).not.toContain("whsec");
  });

  it("rejects a secret that was encrypted for another record (USE-16)", () => {
    expect(() => box.open(box.seal("secret", "we_1"), "we_2")).toThrow(UnsealError);
  });

  it("rejects a secret in which any byte was changed (USE-16)", () => {
    const sealed = Buffer.from(box.seal("secret", "we_1"), "base64");
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      expect(() => box.open(changed.toString("base64"), "we_1")).toThrow(UnsealError);
    }
  });

  it("detects by the key's id byte that a secret was encrypted with another master key (USE-16)", () => {
    const keys = Array.from({ length: 20 }, () => new SecretBox(randomBytes(32)));
    const messages = keys.map((other) => {
      try {
        return other.open(box.seal("secret", "we_1"), "we_1");
      } catch (error) {
        return error instanceof UnsealError ? error.message : "another error";
      }
    });
    // One key in 256 has the same id byte; then the authentication tag rejects it.
    expect(messages.filter((text) => text === "it was sealed with another master key").length).toBeGreaterThan(15);
    expect(messages).not.toContain("secret");
  });

  it("accepts only a key of 32 bytes, and rejects text that is not encrypted", () => {
    expect(() => new SecretBox(randomBytes(31))).toThrow(RangeError);
    expect(() => box.open("", "we_1")).toThrow(UnsealError);
    expect(() => box.open("not base64 of anything sealed", "we_1")).toThrow(UnsealError);
  });
});
