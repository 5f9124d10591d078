import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { blockOf } from "../../support/page-blocks.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { type RunningService, startService } from "../../support/start-service.js";

const run = promisify(execFile);
const models = [
  { id: "qwen3-0.6b", engine: "scripted", scripted: { text: "Hello from the script." } },
  { id: "all-minilm-l6-v2", engine: "scripted", scripted: { dimensions: 8 } },
];
/** Folder inside the repository, so that the program finds the repository's node_modules. */
const folder = resolve(".cache/use-it-with");

let service: RunningService;
beforeAll(async () => {
  service = await startService({ config: { models } });
  await mkdir(folder, { recursive: true });
});
afterAll(async () => {
  await service.close();
  await rm(folder, { recursive: true });
});

/** Writes the program in the page's code block with this info string, with the URL and the key of this service. */
async function programOf(information: string, name: string): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, blockOf("docs/use-it-with.md", information, service));
  return file;
}

const chatOnly = "Hello from the script.";
const withEmbedding = /^Hello from the script\.\n8\n$/;

describe("the programs of docs/use-it-with.md", () => {
  it.each([
    ["openai", `${chatOnly}\n`],
    ["langchain", withEmbedding],
    ["ai-sdk", withEmbedding],
  ])("in JavaScript with %s", async (name, expected) => {
    const { stdout } = await run(process.execPath, [await programOf(`js ${name}`, `${name}.mjs`)]);
    expect(stdout).toMatch(expected);
  });

  // Needs python3 with venv, which not every machine has.
  describe.skipIf(!hasPython)("in Python", () => {
    let python: string;
    beforeAll(async () => {
      python = await pythonVenv("test/conformance/sdk/python/use-it-with.txt");
    }, 600_000);

    it.each([
      ["openai", chatOnly],
      ["langchain", withEmbedding],
      ["llamaindex", withEmbedding],
    ])("with %s", { timeout: 120_000 }, async (name, expected) => {
      const { stdout } = await run(python, [await programOf(`python ${name}`, `uses_${name}.py`)]);
      expect(stdout).toMatch(expected);
    });
  });
});
