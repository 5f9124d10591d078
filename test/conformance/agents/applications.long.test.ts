import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { npmPackages } from "../../support/npm-package.js";
import { blockOf } from "../../support/page-blocks.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { type AgentScene, setAgentScene } from "./agent-run.js";

const said = "Hello from the script.";

describe("Continue", () => {
  let scene: AgentScene;
  beforeAll(async () => {
    const modules = await npmPackages("test/conformance/agents/continue");
    const program = [process.execPath, join(modules, "@continuedev/cli/dist/cn.js")];
    scene = await setAgentScene({ text: said }, "cn", program);
  }, 600_000);
  afterAll(() => scene?.close());

  it("answers a prompt with the settings of docs/agents.md", { timeout: 180_000 }, async () => {
    const config = join(scene.home, "config.yaml");
    await writeFile(config, blockOf("docs/agents.md", "yaml continue", scene.service));
    const result = await scene.run(`cn --config ${config} --print 'Hello!'`);
    expect(result, result.stderr).toMatchObject({ code: 0 });
    expect(result.stdout.trim()).toBe(said);
  });
});

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("aider", () => {
  let scene: AgentScene;
  beforeAll(async () => {
    const python = await pythonVenv("test/conformance/agents/aider.txt");
    scene = await setAgentScene({ text: "note.txt\n```\ntwo steps\n```\n" }, "aider", [python, "-m", "aider"]);
  }, 600_000);
  afterAll(() => scene?.close());

  it("writes a file with the settings of docs/agents.md", { timeout: 180_000 }, async () => {
    const line = blockOf("docs/agents.md", "sh aider", scene.service).trimEnd();
    const options = "--no-git --yes-always --no-check-update --analytics-disable --no-show-model-warnings";
    const result = await scene.run(`${line} ${options} --message 'Write a note.'`);
    expect(result, result.stderr).toMatchObject({ code: 0 });
    expect((await readFile(join(scene.folder, "note.txt"), "utf8")).trim()).toBe("two steps");
  });
});
