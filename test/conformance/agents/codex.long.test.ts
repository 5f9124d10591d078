import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { npmPackages } from "../../support/npm-package.js";
import { blockOf } from "../../support/page-blocks.js";
import { type AgentScene, setAgentScene, task, taskScript } from "./agent-run.js";

describe("Codex", () => {
  let scene: AgentScene;
  beforeAll(async () => {
    const modules = await npmPackages("test/conformance/agents/codex");
    const program = [process.execPath, join(modules, "@openai/codex/bin/codex.js")];
    scene = await setAgentScene(
      taskScript("exec_command", (cmd) => ({ cmd })),
      "codex",
      program,
    );
  }, 600_000);
  afterAll(() => scene?.close());

  it("completes a task of two commands with the settings of docs/agents.md", { timeout: 180_000 }, async () => {
    const { service, home, folder, trap } = scene;
    await mkdir(join(home, ".codex"));
    await writeFile(join(home, ".codex/config.toml"), blockOf("docs/agents.md", "toml codex", service));
    const line = blockOf("docs/agents.md", "sh codex", service).trimEnd();
    const last = join(home, "last.txt");
    const result = await scene.run(
      `${line} exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --output-last-message ${last} '${task.prompt}'`,
    );
    expect(result, result.stderr).toMatchObject({ code: 0 });
    expect(await readFile(join(folder, "note.txt"), "utf8")).toBe(task.note);
    expect((await readFile(last, "utf8")).trim()).toBe(task.said);
    expect(trap.hosts).toEqual([]);
  });
});
