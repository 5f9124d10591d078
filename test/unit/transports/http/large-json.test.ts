import { describe, expect, it } from "vitest";
import { parseJsonBody } from "../../../../src/transports/http/json-object.js";
import { LargeJson, parseLargeJsonBody } from "../../../../src/transports/http/large-json.js";

const limits = { jsonDepthMax: 64, jsonTokensMax: 200_000 };
const codeOf = (thrown: unknown): unknown => (thrown as { code?: unknown }).code;
const long = "words ".repeat(100_000);

describe("parseLargeJsonBody", () => {
  it.each([
    ["an object", JSON.stringify({ model: "m", text: long, nested: { list: [1, "é", null] } })],
    ["a byte order mark", `\ufeff${JSON.stringify({ text: long })}`],
  ])("reads %s with the same result as the parser of small bodies", async (_, text) => {
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

  it.each([
    ["plain text", "A queue in front of a model. ".repeat(360_000)],
    ["escapes", 'A "quoted" line\n'.repeat(600_000)],
    ["Chinese", "大型语言模型".repeat(550_000)],
  ])("blocks the event loop for less than 100 ms at a time for 10 MB of %s (REL-3)", async (_, text) => {
    const body = Buffer.from(JSON.stringify({ model: "m", messages: [{ role: "user", content: text }] }));
    // A first run, so that the code is compiled before it is measured. Other processes can only lengthen a turn.
    const { fields } = await parseLargeJsonBody(body, limits);
    expect(fields).toEqual({ model: "m", messages: [{ role: "user", content: text }] });
    const longestMs: number[] = [];
    for (let run = 0; run < 3; run += 1) {
      const ended = watchTurns();
      await parseLargeJsonBody(body, limits);
      longestMs.push(ended());
    }
    // The aim is 20 ms.
    expect(Math.min(...longestMs)).toBeLessThan(5 * 20);
  });

  it("returns the source text of a schema in a body with long messages", async () => {
    const schema = '{"type":"object", "maximum": 12345678901234567890}';
    const body = `{"messages":[{"content":"${long}é"}],"t\\u006fols":[{"parameters":${schema}}],"tools2":1}`;
    const [tool] = (await parseLargeJsonBody(Buffer.from(body), limits)).objects("tools") ?? [];
    expect(tool?.objectAsText("parameters")).toBe(schema);
  });
});

/** Measures the longest turn of the event loop, in milliseconds, until the returned function is called. */
function watchTurns(): () => number {
  let [longestMs, lastMs, isOver] = [0, performance.now(), false];
  const turn = (): void => {
    longestMs = Math.max(longestMs, performance.now() - lastMs);
    lastMs = performance.now();
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  return () => {
    isOver = true;
    return longestMs;
  };
}

describe("LargeJson", () => {
  /** Reads JSON in steps so small that each text is cut at most of its positions. */
  const read = (text: string, stepBytes: number): Promise<unknown> =>
    new LargeJson(Buffer.from(text), limits, stepBytes).read();
  const texts = [
    '{"a":1,"list":[{"b":"xyzxyzxyz"},{"c":[1,2,3],"d":{"e":null}},[],{}],"a":2}',
    '[ [1 , 2 ] , "\\u00e9\\ud83d\\ude00\\\\\\\\\\"大型语言模型😀" ,\n{"0":1,"k":{"0":[true]}} ] ',
    '{"k\\"ey":"long long long text \\\\","0":[[[["deep deep deep deep"]]]]}',
    '"a text alone"',
    " 12 ",
  ];

  it.each([6, 8, 16, 40])("reads the same as JSON.parse in steps of %i bytes", async (stepBytes) => {
    for (const text of texts) expect(await read(text, stepBytes)).toEqual(JSON.parse(text));
  });

  it.each([6, 16])("rejects invalid JSON in steps of %i bytes, like JSON.parse (SEC-9)", async (stepBytes) => {
    for (const text of texts) {
      for (let at = 0; at <= text.length; at += 1) {
        for (const inserted of [",", ":", "]", "}", "[", "{", '"', "x", "1"]) {
          const changed = Buffer.from(text.slice(0, at) + inserted + text.slice(at)).toString();
          const expected = parsed(changed);
          const result = await read(changed, stepBytes).catch((error: unknown) => codeOf(error));
          expect(result, changed).toEqual(expected);
        }
      }
    }
  });

  it.each([
    '{"aaaaaaaaaa":1,"__proto__":{"bbbbbbbbbbbb":1,"c":2},"d":1}',
    '{"aaaaaaaaaa":1,"constructor":{"bbbbbbbbbbbb":1,"prototype":{"cccccccccc":2,"d":1},"e":1},"f":1}',
    '{"aaaaaaaaaa":1,"constructor":{"bbbbbbbbbbbb":1,"prototype":2,"e":1},"f":1}',
  ])("refuses forbidden keys whose parts are in different steps: %s (SEC-11)", async (text) => {
    for (const stepBytes of [6, 12, 100]) {
      expect(await read(text, stepBytes).catch((error: unknown) => codeOf(error))).toBe("invalid_json");
    }
  });
});

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return "invalid_json";
  }
}
