import { createHash, randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import {
  apiKeyPattern,
  hashApiKey,
  isApiKeySecret,
  isMistypedApiKey,
  isPresentable,
  newApiKeySecret,
  shownEndsOf,
} from "../../../../src/domain/access/api-key.js";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const fixed = newApiKeySecret(() => new Uint8Array(32).fill(255));

describe("API key format", () => {
  it("is sk-uis-, 43 base62 characters of 256 random bits, and 6 of their checksum (KEY-1)", () => {
    const asked: number[] = [];
    const secret = newApiKeySecret((count) => {
      asked.push(count);
      return randomBytes(count);
    });
    expect(asked).toEqual([32]);
    expect(secret).toMatch(/^sk-uis-[0-9A-Za-z]{49}$/);
    expect(secret).toMatch(new RegExp(`^${apiKeyPattern}$`));
    expect(isApiKeySecret(secret)).toBe(true);
    // A literal, because keys outlive versions: prefix, alphabet, order and checksum must never change.
    expect(fixed).toBe("sk-uis-yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp11K8jLh");
  });

  it("every change of one character is detected (KEY-1)", () => {
    const missed: string[] = [];
    for (let position = 7; position < fixed.length; position++) {
      for (const character of alphabet) {
        const typo = fixed.slice(0, position) + character + fixed.slice(position + 1);
        if (typo !== fixed && (isApiKeySecret(typo) || !isMistypedApiKey(typo))) missed.push(typo);
      }
    }
    expect(missed).toEqual([]);
  });

  it("every swap of two different adjacent characters is detected (KEY-1)", () => {
    for (let position = 7; position < fixed.length - 1; position++) {
      const swapped = fixed.slice(0, position) + fixed[position + 1] + fixed[position] + fixed.slice(position + 2);
      if (swapped !== fixed) expect(isApiKeySecret(swapped)).toBe(false);
    }
  });

  it("text of another format is neither a key nor a mistyped key", () => {
    for (const text of ["", "sk-uis-", `${fixed}0`, fixed.slice(1), ` ${fixed}`, `${fixed}\n`, fixed.toUpperCase()]) {
      expect(isApiKeySecret(text)).toBe(false);
      expect(isMistypedApiKey(text)).toBe(false);
    }
    expect(isMistypedApiKey(fixed)).toBe(false);
  });

  it("an operator's own key is 8 to 256 printable characters without spaces", () => {
    for (const text of ["12345678", "~".repeat(256), fixed]) expect(isPresentable(text)).toBe(true);
    for (const text of ["1234567", "~".repeat(257), "1234 5678", "1234567\n", "schlüssel", "12345678\u0000"]) {
      expect(isPresentable(text)).toBe(false);
    }
  });

  it("is stored as SHA-256 with its first 10 and last 4 characters (KEY-3)", () => {
    expect(hashApiKey(fixed)).toBe(createHash("sha256").update(fixed, "utf8").digest("hex"));
    expect(shownEndsOf(fixed)).toEqual({ prefix: fixed.slice(0, 10), last4: fixed.slice(-4) });
  });

  it("shows no part of a key that is so short that the rest could be guessed (KEY-3)", () => {
    const short = "x".repeat(31);
    expect(shownEndsOf(short)).toEqual({ prefix: "", last4: "" });
    expect(shownEndsOf("0123456789".repeat(4))).toEqual({ prefix: "0123456789", last4: "6789" });
  });
});
