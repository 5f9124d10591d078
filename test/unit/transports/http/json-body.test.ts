import { describe, expect, it } from "vitest";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { parseJsonBody } from "../../../../src/transports/http/json-object.js";
import { expectRefusal } from "../openai/refusal.js";

const parse = (text: string | Buffer) => parseJsonBody(Buffer.from(text), defaultLimits).fields;

describe("JSON body", () => {
  it("has the last value of a repeated key (GEN-11)", () => {
    expect(parse('{"a":1,"a":2}')).toEqual({ a: 2 });
  });

  it.each(["", "{", '{"a":}', "{'a':1}", '{"a":1}x', "nope", '{"a":1,}', '{"a":NaN}'])(
    "is refused if it is %s, which is not JSON (GEN-11, ERR-7)",
    (text) => {
      expectRefusal(() => parse(text), "invalid_json", null);
    },
  );

  it("is refused with the position of a syntax error, but without text of the body (GEN-11)", () => {
    const { message } = expectRefusal(() => parse('{"secret":"hunter2" x}'), "invalid_json", null);
    expect(message).toContain("position 20");
    expect(message).not.toContain("hunter2");
  });

  it("is refused if it is not UTF-8, and may begin with a byte order mark", () => {
    expectRefusal(() => parse(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), "invalid_json", null);
    expectRefusal(() => parse(Buffer.from('{"a":1}', "utf16le")), "invalid_json", null);
    expect(parse('\ufeff{"a":1}')).toEqual({ a: 1 });
  });

  it.each(["[]", "1", '"a"', "null", "true"])("is refused if it is %s, which is not an object (GEN-8)", (text) => {
    expectRefusal(() => parse(text), "invalid_type", null);
  });

  it("may have 64 levels but not 65 (SEC-9, GEN-11)", () => {
    const nested = (levels: number) => `{"a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
    expect(parse(nested(64))).toBeDefined();
    expectRefusal(() => parse(nested(65)), "invalid_json", null);
  });

  it("may have 200,000 tokens but not one more (SEC-9, GEN-11)", () => {
    const numbers = (count: number) => `{"a":[${Array(count).fill("1").join()}]}`;
    expect(parse(numbers(199_995))).toBeDefined();
    expectRefusal(() => parse(numbers(199_996)), "invalid_json", null);
  });

  it.each([
    ['{"__proto__":{"admin":true}}', "__proto__"],
    ['{"a":[{"b":{"__proto__":1}}]}', "__proto__"],
    ['{"\\u005f_proto__":1}', "__proto__"],
    ['{"\\u005f\\u005fproto\\u005f\\u005f":1}', "__proto__"],
    ['{"a":{"constructor":{"prototype":{"x":1}}}}', "constructor"],
    ['{"c\\u006fnstructor":{"prot\\u006ftype":1}}', "constructor"],
  ])("is refused for the forbidden key in %s, which the error names (SEC-11)", (text, key) => {
    expect(expectRefusal(() => parse(text), "invalid_json", null).message).toContain(key);
  });

  it("may have the names of forbidden keys in string values (SEC-11)", () => {
    const body = { content: 'set __proto__ and constructor.prototype, "\u00e9"', constructor: "a name" };
    expect(parse(JSON.stringify(body))).toEqual(body);
  });
});
