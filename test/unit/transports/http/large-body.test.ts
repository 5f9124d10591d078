import { describe, expect, it } from "vitest";
import { parseJsonBody } from "../../../../src/transports/http/json-object.js";
import { parseLargeJsonBody } from "../../../../src/transports/http/large-body.js";

const limits = { jsonDepthMax: 64, jsonTokensMax: 200_000 };
const codeOf = (thrown: unknown): unknown => (thrown as { code?: unknown }).code;
const long = "words ".repeat(100_000);

describe("parseLargeJsonBody", () => {
  it.each([
    ["an object", JSON.stringify({ model: "m", text: long, nested: { list: [1, "é", null] } })],
    ["a byte order mark", `\ufeff${JSON.stringify({ text: long })}`],
  ])("reads %s as the parser of small bodies does", async (_, text) => {
    const body = Buffer.from(text);
    expect((await parseLargeJsonBody(body, limits)).fields).toEqual(parseJsonBody(body, limits).fields);
  });

  it.each([
    ["cut", `{"text":"${long}`, "invalid_json"],
    ["nested too deeply", `{"a":${"[".repeat(65)}${"]".repeat(65)},"text":"${long}"}`, "invalid_json"],
    ["of too many values", JSON.stringify({ list: Array.from({ length: 200_000 }, () => 1) }), "invalid_json"],
    ["with a forbidden key", `{"__proto__":{},"text":"${long}"}`, "invalid_json"],
    ["a list", JSON.stringify([long]), "invalid_type"],
  ])("rejects a body that is %s with the error of small bodies (SEC-9, SEC-11)", async (_, text, code) => {
    const body = Buffer.from(text);
    const thrown = await parseLargeJsonBody(body, limits).catch((error: unknown) => error);
    expect(codeOf(thrown)).toBe(code);
    expect(() => parseJsonBody(body, limits)).toThrow(expect.objectContaining({ code }));
  });

  it("lets other work run between its steps (REL-3)", async () => {
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    await parseLargeJsonBody(Buffer.from(JSON.stringify({ text: long })), limits);
    isOver = true;
    expect(turns).toBeGreaterThanOrEqual(3);
  });
});
