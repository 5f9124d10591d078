import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { completionScript } from "../../../../src/app/command-line/completion.js";
import { allCommands, silentProgram } from "../../../support/cli/all-commands.js";

/** The words that bash offers after these words, of which the last one is incomplete. */
function offered(lines: readonly (readonly string[])[]): readonly string[][] {
  const script = [
    completionScript(silentProgram(), "bash"),
    `offer() { COMP_WORDS=(uis "$@"); COMP_CWORD=$#; _uis; echo "\${COMPREPLY[*]}"; }`,
    ...lines.map((words) => `offer ${words.map((word) => `'${word}'`).join(" ")}`),
  ].join("\n");
  const [program = "", ...args] = ["bash", "--norc", "-c", script];
  const output = execFileSync(program, args, { encoding: "utf8", cwd: "test/fixtures" });
  return output
    .trimEnd()
    .split("\n")
    .map((line) => line.split(" ").filter((word) => word !== ""));
}

describe("completion in bash", () => {
  it("offers commands, options, fixed values and files at the positions where they are allowed", () => {
    const [first, group, ofCommand, values, option, none, shells, files] = offered([
      [""],
      ["keys", "cr"],
      ["keys", "create", "--s"],
      ["keys", "create", "--scope", ""],
      ["--json", "keys", "create", "--scope", "read", "--mod"],
      ["keys", "create", "--name", ""],
      ["completion", ""],
      ["models", "import", "up"],
    ]);
    expect(first).toEqual(silentProgram().commands.map((command) => command.name()));
    expect(group).toEqual(["create"]);
    expect(ofCommand).toEqual(["--scope"]);
    expect(values).toEqual(["read", "read_write"]);
    expect(option).toEqual(["--models"]);
    expect(none).toEqual([]);
    expect(shells).toEqual(["bash", "zsh", "fish"]);
    expect(files).toEqual(["upstreams"]);
  });
});

describe.each(["bash", "zsh", "fish"] as const)("the script for %s", (shell) => {
  const script = completionScript(silentProgram(), shell);

  it("has every command with every one of its options", () => {
    for (const [name, { options }] of allCommands(silentProgram())) {
      expect(script).toContain(name);
      for (const { long } of options) expect(script).toContain(shell === "fish" ? `-l ${long?.slice(2)} ` : long);
    }
  });

  it("escapes quotes in descriptions", () => {
    const program = silentProgram();
    program.command("odd").description("the user's own command");
    const escaped = { bash: "odd", zsh: "the user'\\''s own", fish: "the user\\'s own" }[shell];
    expect(completionScript(program, shell)).toContain(escaped);
  });
});
