import type { IncomingMessage } from "node:http";
import { describe, expect, it } from "vitest";
import { readRequestTimeout } from "../../../../src/transports/http/call.js";
import { checkMediaType } from "../../../../src/transports/http/json-object.js";
import { expectRefusal } from "../openai/refusal.js";

const check = (type: string | undefined, encoding?: string) =>
  checkMediaType({ headers: { "content-type": type, "content-encoding": encoding } } as unknown as IncomingMessage);

describe("media type of a request", () => {
  it.each([
    "application/json",
    "Application/JSON",
    "application/json; charset=utf-8",
    "application/json;charset=UTF-8;x=y",
    "application/json ;",
    "application/vnd.api+json",
    "text/x+json; a=b",
  ])("is accepted as JSON if it is %s (GEN-6, SEC-7)", (type) => {
    expect(() => check(type)).not.toThrow();
  });

  it.each([
    undefined,
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/jsonx",
    "application/json, text/plain",
    "application/json text",
    "application/json\tx",
    " text/json",
    "application/",
    "+json",
    "/+json",
    "__proto__",
    "multipart/form-data; boundary=application/json",
    "application/json, application/json; x=y",
  ])("is refused if it is %s (GEN-6, SEC-7)", (type) => {
    expectRefusal(() => check(type), "unsupported_media_type", null);
  });

  it("is refused with an error that names the header to add to a curl command (GEN-6)", () => {
    const { message } = expectRefusal(() => check("application/x-www-form-urlencoded"), "unsupported_media_type", null);
    expect(message).toContain("-H 'Content-Type: application/json'");
  });

  it("is refused for a compressed body (SEC-5)", () => {
    expect(() => check("application/json", "Identity")).not.toThrow();
    for (const encoding of ["gzip", "br", "identity, gzip", ""]) {
      expectRefusal(() => check("application/json", encoding), "unsupported_media_type", null);
    }
  });
});

describe("request timeout", () => {
  it("is a number of seconds, which may have decimals", () => {
    expect(readRequestTimeout(undefined)).toBe(Number.POSITIVE_INFINITY);
    expect(readRequestTimeout("30")).toBe(30_000);
    expect(readRequestTimeout("0.25")).toBe(250);
  });

  it.each(["", "0", "0.0", "-1", "1s", "1e3", "NaN", "Infinity", "1,5", " 1"])("cannot be '%s'", (header) => {
    expect(readRequestTimeout(header)).toMatchObject({ code: "invalid_value", param: "x-request-timeout" });
  });
});
