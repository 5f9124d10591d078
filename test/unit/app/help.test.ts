import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { allCommands, allGroups, silentProgram } from "../../support/cli/all-commands.js";
import { commandsOfPage, examplesOfHelp, wordsAfterUis } from "../../support/cli/example-lines.js";
import { uis } from "../../support/cli-run.js";

const names = [...allCommands(silentProgram()).keys()];

/** The name of the command that accepts these words; rejects if the parser rejects them. */
async function takenBy(words: readonly string[]): Promise<string | null> {
  const program = silentProgram();
  let taken: string | null = null;
  for (const [name, command] of allCommands(program)) {
    command.action(() => {
      taken = name;
    });
  }
  await program.parseAsync(words, { from: "user" });
  return taken;
}

describe("uis --help", () => {
  it("fits one screen of 32 lines and 80 columns, and names every command", async () => {
    for (const args of [["--help"], ["help"]]) {
      const { code, stdout, stderr } = await uis(args);
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      const lines = stdout.trimEnd().split("\n");
      expect(lines.length).toBeLessThanOrEqual(32);
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
      for (const command of silentProgram().commands) {
        expect(stdout).toMatch(new RegExp(`^  ${command.name()} `, "m"));
      }
    }
  });

  it("ends with an example whose command exists", async () => {
    const last = (await uis(["--help"])).stdout.trimEnd().split("\n").at(-1) ?? "";
    const { code, stdout } = await uis(wordsAfterUis(last));
    expect(code).toBe(0);
    expect(stdout).toContain("Examples:");
  });
});

describe.each(
  allGroups(silentProgram())
    .slice(1)
    .map((group) => group.name()),
)("uis %s --help", (group) => {
  it("ends with valid examples of its own commands", async () => {
    const examples = examplesOfHelp((await uis([group, "--help"])).stdout);
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) {
      expect(await takenBy(wordsAfterUis(example))).toMatch(new RegExp(`^${group} `));
    }
  });
});

describe.each(names)("uis %s --help", (name) => {
  it("ends with valid examples of this command", async () => {
    const { code, stdout, stderr } = await uis([...name.split(" "), "--help"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain(`Usage: uis ${name} `);
    const [explained = ""] = stdout.split("Examples:");
    for (const line of explained.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    const examples = examplesOfHelp(stdout);
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) {
      expect(example).toMatch(/^uis /);
      expect(await takenBy(wordsAfterUis(example))).toBe(name);
    }
  });

  it("prints the same text as uis help", async () => {
    const words = name.split(" ");
    expect(await uis(["help", ...words])).toEqual(await uis([...words, "--help"]));
  });
});

const pages = [
  "README.md",
  ...readdirSync("docs")
    .filter((file) => file.endsWith(".md"))
    .map((file) => `docs/${file}`),
];
// Lines with --help are not checked: they run no command.
const ofPages = pages.flatMap((page) =>
  commandsOfPage(readFileSync(page, "utf8"))
    .filter((line) => !wordsAfterUis(line).includes("--help"))
    .map((line) => [page, line] as const),
);

describe("commands in the documents", () => {
  it("are found by this test", () => expect(ofPages.length).toBeGreaterThan(8));

  it.each(ofPages)("%s: the program accepts %s", async (_, line) => {
    expect(await takenBy(wordsAfterUis(line))).not.toBeNull();
  });
});
