import { describe, expect, it } from "vitest";
import { verifyWebhook } from "../../../src/lib/webhook-signature.js";
import { vectors } from "./vectors.js";

describe("docs/webhooks/vectors.json", () => {
  it.each(vectors)("$name (WH-15, WH-16, WH-17)", ({ secret, header, body, now, valid, reason }) => {
    const expected = valid ? { valid, timestampS: 1_700_000_000 } : { valid, reason };
    expect(verifyWebhook({ secret, header, body, nowS: now })).toEqual(expected);
    expect(verifyWebhook({ secret, header, body: Buffer.from(body, "utf8"), nowS: now })).toEqual(expected);
  });

  it("has valid vectors, and invalid ones for every reason", () => {
    expect(new Set(vectors.map(({ name }) => name)).size).toBe(vectors.length);
    expect(vectors.filter(({ valid }) => valid).length).toBeGreaterThanOrEqual(8);
    const reasons = vectors.flatMap(({ reason }) => reason ?? []);
    expect([...new Set(reasons)].sort()).toEqual([
      "malformed_timestamp",
      "missing_signature",
      "missing_timestamp",
      "signature_mismatch",
      "timestamp_in_future",
      "timestamp_too_old",
    ]);
  });
});
