import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeRandomGguf } from "../../support/gguf/random-gguf.js";
import { type LlamaService, startLlamaService } from "../../support/llama-service.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";

const folder = fileURLToPath(new URL("python/", import.meta.url));
const choices = ["Pizza", "Pasta", "Salad", "Dessert (2 scoops)"];
const count = 50;

/** The parsed output of the script. */
interface Seen {
  readonly choices: readonly string[];
  readonly regex: string;
  readonly person: { readonly name: string; readonly age: number };
}

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython && process.env["CI"] !== "true")("PyPI outlines, for vLLM, with the embedded engine", () => {
  let service: LlamaService;
  let seen: Seen;

  beforeAll(async () => {
    service = await startLlamaService([{ id: "m", contextLength: 4_096, write: (path) => writeRandomGguf(path) }]);
    const python = await pythonVenv(join(folder, "outlines.txt"));
    const child = spawn(python, [join(folder, "outlines_client.py")], { stdio: ["pipe", "pipe", "inherit"], env: {} });
    child.stdin.end(JSON.stringify({ api: service.api, key: service.key, choices, count }));
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
    expect(code).toBe(0);
    seen = JSON.parse(output) as Seen;
  }, 600_000);
  afterAll(() => service.close());

  it("a choice returns one of its texts in 50 of 50 answers of a random model (E-5, CHAT-30)", () => {
    expect(seen.choices).toHaveLength(count);
    expect(seen.choices.filter((answer) => !choices.includes(answer))).toEqual([]);
    expect(new Set(seen.choices).size).toBeGreaterThan(1);
  });

  it("a regular expression and a data type are kept (E-5, CHAT-30)", () => {
    expect(seen.regex).toMatch(/^[0-9]{3}-[0-9]{4}$/);
    expect(seen.person).toEqual({ name: expect.any(String), age: expect.any(Number) });
  });
});
