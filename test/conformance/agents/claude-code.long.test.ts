import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { npmPackages } from "../../support/npm-package.js";
import { blockOf } from "../../support/page-blocks.js";
import { type AgentScene, setAgentScene, task, taskScript } from "./agent-run.js";

describe("Claude Code", () => {
  let scene: AgentScene;
  beforeAll(async () => {
    const modules = await npmPackages("test/conformance/agents/claude-code");
    // The package's install script would create its command, but install scripts are not run.
    const program = [process.execPath, join(modules, "@anthropic-ai/claude-code/cli-wrapper.cjs")];
    const script = taskScript("Bash", (command) => ({ command, description: "A step of the task" }));
    scene = await setAgentScene(script, "claude", program);
  }, 600_000);
  afterAll(() => scene?.close());

  it("completes a task of two commands with the settings of docs/agents.md", { timeout: 180_000 }, async () => {
    const { service, folder, trap } = scene;
    const line = blockOf("docs/agents.md", "sh claude-code", service).trimEnd();
    const result = await scene.run(`${line} --print --output-format json --allowedTools Bash -- '${task.prompt}'`);
    expect(result, result.stderr).toMatchObject({ code: 0 });
    expect(await readFile(join(folder, "note.txt"), "utf8")).toBe(task.note);
    expect(JSON.parse(result.stdout)).toMatchObject({ type: "result", is_error: false, result: task.said });
    expect(trap.hosts).toEqual([]);
  });
});
