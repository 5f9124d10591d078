import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { signStandardWebhook, signWebhook, verifyWebhook } from "../../../src/lib/webhook-signature.js";

const secret = `whsec_${Buffer.alloc(32, "s").toString("base64")}`;
const timestampS = 1_700_000_000;

const bodies = fc.uint8Array({ maxLength: 300 });
const secretLists = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 40 }), { minLength: 1, maxLength: 3 });
const times = fc.integer({ min: 0, max: 4_000_000_000 });

describe("signWebhook", () => {
  it("signs the timestamp, a period and the body with the whole secret, in lower-case hex (WH-15)", () => {
    // Created with another implementation: openssl dgst -sha256 -hmac "$secret".
    expect(signWebhook({ secrets: ["whsec_dGVzdA=="], timestampS, body: '{"note":"é😀"}' })).toBe(
      "t=1700000000,v1=5d9e88091d009423d20ac81a4b6b405af126e4b22816ec3376c48da6a204ccc2",
    );
  });

  it("writes one time t, then one signature v1 for each secret, that of the newest secret first (WH-16)", () => {
    const alone = (one: string) => signWebhook({ secrets: [one], timestampS, body: "{}" }).split("v1=")[1];
    expect(signWebhook({ secrets: ["new", "old"], timestampS, body: "{}" })).toBe(
      `t=${timestampS},v1=${alone("new")},v1=${alone("old")}`,
    );
  });

  it("signs text as its UTF-8 bytes, in both forms", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        const sign = (body: string | Uint8Array) => [
          signWebhook({ secrets: [secret], timestampS, body }),
          signStandardWebhook({ secrets: [secret], id: "evt_1", timestampS, body }),
        ];
        expect(sign(text)).toEqual(sign(Buffer.from(text, "utf8")));
      }),
    );
  });
});

describe("signStandardWebhook", () => {
  it("signs id, timestamp and body with the bytes behind whsec_, in base64 (WH-18)", () => {
    // Created with another implementation: openssl dgst -sha256 -hmac test -binary | base64.
    expect(signStandardWebhook({ secrets: ["whsec_dGVzdA=="], id: "evt_1", timestampS, body: "{}" })).toBe(
      "v1,BxApBL04lJubTpSUkjN8bDs8oItadU8CWjsi7uw/uYs=",
    );
  });

  it("has one v1 for each secret, separated by spaces (WH-18)", () => {
    const sign = (secrets: string[]) => signStandardWebhook({ secrets, id: "evt_1", timestampS, body: "{}" });
    expect(sign(["whsec_bmV3", "whsec_b2xk"])).toBe(`${sign(["whsec_bmV3"])} ${sign(["whsec_b2xk"])}`);
  });
});

describe("verifyWebhook", () => {
  const header = signWebhook({ secrets: [secret], timestampS, body: "{}" });
  const verify = (options: Partial<Parameters<typeof verifyWebhook>[0]>) =>
    verifyWebhook({ secret, header, body: "{}", nowS: timestampS, ...options });
  const refused = (reason: string) => ({ valid: false, reason });

  it("accepts a signature by any of the secrets, also in a header with further signatures (WH-16, WH-17)", () => {
    fc.assert(
      fc.property(secretLists, times, bodies, (secrets, signedAtS, body) => {
        const signed = signWebhook({ secrets, timestampS: signedAtS, body });
        for (const one of [...secrets, secrets, ["unknown", ...secrets]]) {
          expect(verifyWebhook({ secret: one, header: signed, body, nowS: signedAtS })).toEqual({
            valid: true,
            timestampS: signedAtS,
          });
        }
      }),
    );
  });

  it("rejects any changed byte of the body (WH-17)", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 300 }),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        (body, at, by) => {
          const signed = signWebhook({ secrets: [secret], timestampS, body });
          const changed = Uint8Array.from(body, (byte, i) => (i === at % body.length ? byte ^ by : byte));
          expect(verify({ header: signed, body: changed })).toEqual(refused("signature_mismatch"));
        },
      ),
    );
  });

  it("rejects any changed, added or omitted character of the header (WH-17)", () => {
    const edits = fc.tuple(fc.nat({ max: header.length - 1 }), fc.constantFrom("0", "f", "F", "z", ",", "=", " ", ""));
    fc.assert(
      fc.property(edits, fc.boolean(), ([at, put], inserts) => {
        const changed = header.slice(0, at) + put + header.slice(inserts ? at : at + 1);
        // One more comma adds an empty field, which is ignored like any unknown one.
        fc.pre(changed !== header && !(inserts && put === ","));
        expect(verify({ header: changed })).toMatchObject({ valid: false });
      }),
    );
  });

  it("does not throw for any text of the header (WH-17)", () => {
    const odd = fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom("t", "v1", "=", ",", "1", "a", " ") }));
    fc.assert(
      fc.property(odd, (text) => {
        expect(verify({ header: text })).toMatchObject({ valid: false });
      }),
    );
  });

  it("accepts a difference of 300 seconds, and rejects 301, in the past and in the future (WH-17)", () => {
    expect(verify({ nowS: timestampS + 300.9 })).toEqual({ valid: true, timestampS });
    expect(verify({ nowS: timestampS + 301 })).toEqual(refused("timestamp_too_old"));
    expect(verify({ nowS: timestampS - 300 })).toEqual({ valid: true, timestampS });
    expect(verify({ nowS: timestampS - 301 })).toEqual(refused("timestamp_in_future"));
    expect(verify({ nowS: timestampS + 60, toleranceS: 59 })).toEqual(refused("timestamp_too_old"));
    expect(verify({ toleranceS: Number.NaN })).toMatchObject({ valid: false });
  });

  it("uses the current time if none is given", () => {
    const nowS = Math.floor(Date.now() / 1000);
    const fresh = signWebhook({ secrets: [secret], timestampS: nowS, body: "{}" });
    expect(verifyWebhook({ secret, header: fresh, body: "{}" })).toEqual({ valid: true, timestampS: nowS });
    expect(verifyWebhook({ secret, header, body: "{}" })).toEqual(refused("timestamp_too_old"));
  });

  it("accepts the header as HTTP servers pass it: as a list, a text or undefined", () => {
    expect(verify({ header: header.split(",") })).toEqual({ valid: true, timestampS });
    expect(verify({ header: null })).toEqual(refused("missing_timestamp"));
    expect(verify({ header: undefined })).toEqual(refused("missing_timestamp"));
  });

  it("throws for an empty secret, which anyone could sign with, and for a parsed body", () => {
    const unset = undefined as unknown as string;
    for (const empty of ["", [], [secret, ""], unset])
      expect(() => verify({ secret: empty })).toThrow(/secret is empty/);
    expect(() => verify({ body: {} as string })).toThrow(/before you parse/);
  });
});
