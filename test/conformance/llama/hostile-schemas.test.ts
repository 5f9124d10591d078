import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeRandomGguf } from "../../support/gguf/random-gguf.js";
import { type LlamaService, startLlamaService } from "../../support/llama-service.js";
import { hostileSchemas } from "../../support/schemas/hostile-schemas.js";
import { rounds } from "../../support/tier.js";
import { type Api, createApi } from "../openai/api.js";

const answerMs = 3_000;
/** Factor on time bounds, because other tests may slow the machine. */
const leniency = 5;
/** Every nth schema of the collection, which is grouped by kind of attack. */
const all = hostileSchemas();
const schemas = all.filter((_, place) => place % Math.round(all.length / rounds(all.length)) === 0);

let service: LlamaService;
let api: Api;

beforeAll(async () => {
  service = await startLlamaService([
    { id: "m", contextLength: 4_096, slots: 1, write: (path) => writeRandomGguf(path) },
  ]);
  api = createApi(service);
}, 180_000);
afterAll(() => service.close());

const letters = Array.from({ length: 64 }, (_, i) => String.fromCodePoint(0x4e00 + i));

/** Constraints that take exponential time or memory in an engine that follows all of their paths. */
const hostileConstraints: readonly { readonly name: string; readonly fields: object }[] = [
  { name: "states that double", fields: { guided_regex: "(a|b)*a(a|b){20}" } },
  { name: "nested repetitions", fields: { guided_regex: "(((.{0,99}){99}){99})*" } },
  { name: "a long regular expression", fields: { guided_regex: "(a?b?)*".repeat(9_000) } },
  {
    name: "many alternatives at each place",
    fields: { guided_regex: `(${letters.map((letter) => `${letter}.*`).join("|")})*` },
  },
  { name: "many choices", fields: { guided_choice: letters.flatMap((a) => letters.slice(0, 15).map((b) => a + b)) } },
  { name: "choices that begin alike", fields: { guided_choice: Array.from({ length: 300 }, (_, i) => "a".repeat(i)) } },
  { name: "paths that double", fields: { grammar: 'root ::= "a" root b | "a" root c | "a"\nb ::= "x"?\nc ::= "x"*' } },
  { name: "ambiguous recursion", fields: { grammar: 'root ::= s s\ns ::= " " s | s2 s | " "\ns2 ::= " " | "  " s2' } },
  {
    name: "rules that double",
    fields: {
      grammar: `${letters.map((_, i) => `r${i} ::= r${i + 1} r${i + 1}`).join("\n")}\nr64 ::= " "?\nroot ::= r0`,
    },
  },
  { name: "left recursion behind empty rules", fields: { grammar: 'root ::= e root "x" | "y"\ne ::= " "*' } },
  { name: "endless nesting", fields: { grammar: 'root ::= "[" root* "]"' } },
  { name: "a repetition of nothing", fields: { grammar: 'root ::= (""*)* ("" "")* "a"{2000}' } },
  { name: "an unknown notation", fields: { grammar: '?start: "a"\n%import common.WS' } },
];

/** The ways in which a request can carry the schema. */
function requests(schema: unknown): readonly (readonly [way: string, fields: object])[] {
  return [true, false].flatMap((strict) => [
    [
      `tool, strict ${strict}`,
      {
        tools: [{ type: "function", function: { name: "f", parameters: schema, strict } }],
        tool_choice: "required",
      },
    ],
    [
      `response_format, strict ${strict}`,
      { response_format: { type: "json_schema", json_schema: { name: "s", schema, strict } } },
    ],
  ]);
}

describe("hostile schemas over REST", () => {
  it("are answered with 200 or 400 in under 3 s, and the engine process survives (SEC-10, RF-4, TOOL-14)", {
    timeout: 120_000 + schemas.length * 30_000,
  }, async () => {
    const [pid] = service.pids("m");
    const wrong: object[] = [];
    const statuses = new Set<number>();
    for (const schema of schemas) {
      for (const [way, fields] of requests(schema)) {
        const sinceMs = performance.now();
        const reply = await api.chat({ model: "m", max_tokens: 48, seed: 1, ...fields });
        const durationMs = performance.now() - sinceMs;
        statuses.add(reply.status);
        const code = reply.json?.error?.code;
        if ([200, 400].includes(reply.status) && durationMs < leniency * answerMs) continue;
        wrong.push({ schema: JSON.stringify(schema).slice(0, 200), way, status: reply.status, code, durationMs });
      }
    }
    expect(wrong).toEqual([]);
    expect(statuses).toEqual(new Set([200, 400]));
    expect({ restarts: service.restarts("m"), pids: service.pids("m") }).toEqual({ restarts: 0, pids: [pid] });
    expect((await api.chat({ model: "m", max_tokens: 3 })).status).toBe(200);
  });

  it.each(hostileConstraints)(
    "a hostile constraint is answered in bounded time, and the process survives: $name (E-5, SEC-10)",
    async ({ fields }) => {
      const [pid] = service.pids("m");
      const sinceMs = performance.now();
      const reply = await api.chat({ model: "m", max_tokens: 48, seed: 1, ...fields });
      expect([200, 400], reply.text).toContain(reply.status);
      expect(performance.now() - sinceMs).toBeLessThan(leniency * answerMs);
      expect({ restarts: service.restarts("m"), pids: service.pids("m") }).toEqual({ restarts: 0, pids: [pid] });
    },
  );
});
