import { inspect, isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { Secret } from "../../../src/lib/secret.js";

const text = "sk-canary-4711";
const secret = new Secret(text);

describe("Secret", () => {
  it("returns its text only from reveal (SEC-18)", () => {
    const shown = [
      `${secret}`,
      JSON.stringify({ keys: [secret] }),
      inspect({ secret }, { depth: 5, showHidden: true }),
      JSON.stringify(Object.entries(secret)),
      String(new Error(`failed with ${secret}`)),
    ];
    expect(shown.join("\n")).not.toContain(text);
    expect(shown[1]).toBe('{"keys":["[redacted]"]}');
    expect(secret.reveal()).toBe(text);
  });

  it("is deeply equal to another one exactly if the texts are the same", () => {
    expect(isDeepStrictEqual({ keys: [secret] }, { keys: [new Secret(text)] })).toBe(true);
    expect(isDeepStrictEqual({ keys: [secret] }, { keys: [new Secret("sk-canary-4712")] })).toBe(false);
  });
});
