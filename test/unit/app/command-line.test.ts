import { describe, expect, it } from "vitest";
import { version } from "../../../src/contract/version.js";
import { uis } from "../../support/cli-run.js";

/** Runs a command with wrong arguments; returns the single line that it prints. */
async function refusal(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await uis(args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  return stderr;
}

describe("a usage error prints one line with the command for help", () => {
  it.each([
    [["keyz", "list"], `unknown command 'keyz' (did you mean keys?); see "uis --help"`],
    [["keys", "lst"], `unknown command 'lst' (did you mean list?); see "uis keys --help"`],
    [["pull", "qwen3-0.6b"], `unknown command 'pull' (did you mean models pull?); see "uis --help"`],
    [["nonsense", "--help"], `unknown command 'nonsense'; see "uis --help"`],
    [["help", "serv"], `unknown command 'serv' (did you mean serve?); see "uis --help"`],
    [["keys", "help", "lst"], `unknown command 'lst' (did you mean list?); see "uis keys --help"`],
    [["a\u001b[2Jb\nc"], `unknown command 'a[2Jb c'; see "uis --help"`],
    [["keys", "list", "--jsn"], `unknown option '--jsn' (did you mean --json?); see "uis keys list --help"`],
    [["--jsn"], `unknown option '--jsn'; see "uis --help"`],
    [
      ["keys", "create", "--scope", "read"],
      `required option '--name <name>' not specified; see "uis keys create --help"`,
    ],
    [["run"], `missing required argument 'model'; see "uis run --help"`],
    [
      ["run", "a", "b", "--top-p", "2"],
      `option '--top-p <number>' argument '2' is invalid. It must be between 0 and 1; see "uis run --help"`,
    ],
    [["doctor", "more"], `too many arguments for 'doctor'. Expected 0 arguments but got 1; see "uis doctor --help"`],
    [
      ["serve", "--port", "eighty"],
      `option '--port <number>' argument 'eighty' is invalid. It must be a whole number between 0 and 65535; see "uis serve --help"`,
    ],
    [
      ["keys", "create", "--name", "x", "--scope", "admin"],
      `option '--scope <scope>' argument 'admin' is invalid. Allowed choices are read, read_write; see "uis keys create --help"`,
    ],
  ])("for the arguments %j", async (args, line) => {
    expect(await refusal(...args)).toBe(`uis: ${line}\n`);
  });
});

it("a group without a command prints its help on stderr, and exits 2", async () => {
  for (const args of [[], ["keys"]]) {
    expect(await refusal(...args)).toBe((await uis([...args, "--help"])).stdout);
  }
});

it("uis --version prints the version of the package", async () => {
  for (const flag of ["--version", "-V"]) {
    expect(await uis([flag])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
  }
});
