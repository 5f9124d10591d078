import { fork } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import type { CompiledSchema } from "../../../../support/schemas/compile-hostile-schemas.js";
import { depthOf, hostileSchemas, valuesOf } from "../../../../support/schemas/hostile-schemas.js";
import { rounds } from "../../../../support/tier.js";

const program = new URL("../../../../support/schemas/compile-hostile-schemas.ts", import.meta.url);
const randomSchemas = rounds(400);
const eachMs = 3_000;

describe("hostile schemas", () => {
  it("are within the bounds of requests (SEC-10)", () => {
    for (const schema of hostileSchemas()) {
      const json = JSON.stringify(schema);
      expect(json.length).toBeLessThanOrEqual(64 * 1024);
      expect([json.slice(0, 80), depthOf(schema) <= 32, valuesOf(schema) <= 2_000]).toEqual([
        json.slice(0, 80),
        true,
        true,
      ]);
    }
    expect(new Set(hostileSchemas().map((schema) => JSON.stringify(schema))).size).toBe(300);
  });

  it("are accepted or refused within 3 s, as are random ones, and never break the engine's parser (SEC-10, RF-4)", {
    timeout: 240_000,
  }, async () => {
    const child = fork(program, [String(randomSchemas)], { execArgv: ["--import", import.meta.resolve("tsx")] });
    const results: CompiledSchema[] = [];
    child.on("message", (message) => results.push(message as CompiledSchema));
    const [code, signal] = await once(child, "exit");
    expect([code, signal]).toEqual([0, null]);
    expect(results).toHaveLength((300 + randomSchemas) * 2);
    const broken = results.filter(({ outcome }) => outcome !== "accepted" && outcome !== "refused");
    expect(broken.map(shown)).toEqual([]);
    expect(results.filter(({ compileMs, parseMs }) => compileMs + parseMs > eachMs).map(shown)).toEqual([]);
    const refusedRandom = results.slice(600).filter(({ outcome }) => outcome === "refused");
    expect(refusedRandom.map(shown)).toEqual([]);
  });
});

function shown({ json, strict, outcome, compileMs, parseMs }: CompiledSchema): string {
  return `${json.slice(0, 200)} strict ${strict}: ${outcome}, ${Math.round(compileMs)} + ${Math.round(parseMs)} ms`;
}
