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
});
