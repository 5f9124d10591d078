import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { allCommands, silentProgram } from "../../support/cli/all-commands.js";
import type { CommandRow, CommandRows, Use } from "../../support/cli/command-row.js";
import { rowsOfAccess } from "../../support/cli/rows-of-access.js";
import { filesOfMachine, rowsOfMachine } from "../../support/cli/rows-of-machine.js";
import { rowsOfUpstreams } from "../../support/cli/rows-of-upstreams.js";
import { rowsOfWebhooks } from "../../support/cli/rows-of-webhooks.js";
import { CliScene } from "../../support/cli/scene.js";
import { type CliResult, uis } from "../../support/cli-run.js";
import { uisProgram } from "../../support/program.js";
import { spawnServe } from "../../support/service-process.js";

const rows: CommandRows = { ...rowsOfAccess, ...rowsOfUpstreams, ...rowsOfWebhooks, ...rowsOfMachine };
let scene: CliScene;
/** An address without a listener. */
let nowhere: string;

beforeAll(async () => {
  scene = await CliScene.start();
  for (const [name, text] of Object.entries(filesOfMachine)) await writeFile(join(scene.folder, name), text);
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  nowhere = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  server.close();
});
afterAll(() => scene.close());

/** Runs a command in this process, or in its own process if it runs until a signal. */
async function use(name: string, row: CommandRow, { words, ...around }: Use, isTTY = false): Promise<CliResult> {
  const args = [...name.split(" "), ...words];
  const { env = scene.env, cwd = scene.folder } = around;
  if (row.untilSignal === undefined) return uis(args, { ...around, env, cwd, isTTY });
  const command = [process.execPath, ...uisProgram];
  const running = spawnServe({ command, args, env, cwd });
  await Promise.race([row.untilSignal(running), running.exited]);
  running.child.kill("SIGTERM");
  const code = await running.exited;
  return { code: Number(code), stdout: running.stdout(), stderr: running.stderr() };
}

/** Runs a command that fails, always in this process. */
async function refused(name: string, { words, stdin = "", env = scene.env, cwd = scene.folder }: Use) {
  return uis([...name.split(" "), ...words], { env, cwd, stdin });
}

function withoutColour(given: Use): Use {
  return { ...given, env: { ...(given.env ?? scene.env), NO_COLOR: "1" } };
}

/** Names of all fields of a JSON value, at any depth. */
function fieldsOf(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(fieldsOf);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [name, ...fieldsOf(inner)]);
}

/** Expects exactly one line on stderr, which contains this text. */
function expectRefusal(result: CliResult, code: number, says: string): void {
  expect(result).toEqual({ code, stdout: "", stderr: expect.stringMatching(/^uis: .*\n$/) });
  expect(result.stderr).toContain(says);
}

it("the table of this test has every command of the program and no other", () => {
  expect(Object.keys(rows).sort()).toEqual([...allCommands(silentProgram()).keys()].sort());
});

describe.each(Object.entries(rows))("uis %s", (name, row) => {
  it("exits 0 and prints one JSON document with --json, and nothing else", async () => {
    const done = await row.done(scene);
    const { code, stdout, stderr } = await use(name, row, { ...done, words: [...done.words, "--json"] });
    expect({ code, stderr }).toEqual({ code: 0, stderr: row.progress ? expect.stringMatching(row.progress) : "" });
    expect(stdout).toMatch(/^[^\n]+\n$/);
    const document: unknown = JSON.parse(stdout);
    expect(row.answer.safeParse(document).error?.issues).toBeUndefined();
    if (row.foreignKeys) return;
    for (const field of fieldsOf(document)) expect(field).toMatch(/^[a-z0-9_]+$/);
  });

  it("exits 0 and prints text without colour if NO_COLOR is set", async () => {
    // Progress on a terminal has another form, which models.test.ts tests.
    const isTTY = row.progress === undefined;
    const { code, stdout, stderr } = await use(name, row, withoutColour(await row.done(scene)), isTTY);
    expect({ code, stderr }).toEqual({ code: 0, stderr: row.progress ? expect.stringMatching(row.progress) : "" });
    expect(stdout).toMatch(row.text);
    expect(stdout + stderr).not.toContain("\u001b");
  });

  it("exits 2 with one line for wrong use, and for an unknown option", async () => {
    const { says, ...wrong } = row.wrong;
    expectRefusal(await refused(name, wrong), 2, says);
    const done = await row.done(scene);
    const hint = `unknown option '--jsno' (did you mean --json?); see "uis ${name} --help"`;
    const misspelt = { ...done, words: [...done.words, "--jsno"] };
    expect(await refused(name, misspelt)).toEqual({ code: 2, stdout: "", stderr: `uis: ${hint}\n` });
  });

  const { failing } = row;
  if (failing !== null) {
    it("exits 1 with the cause if it fails", async () => {
      const { says, on, ...failed } = await failing(scene);
      const result = await refused(name, failed);
      const json = await refused(name, { ...failed, words: [...failed.words, "--json"] });
      if (on === undefined) {
        expectRefusal(result, 1, says);
        expect(json).toEqual(result);
      } else {
        expect(result).toEqual({ code: 1, stdout: expect.stringContaining(says), stderr: "" });
        expect(json).toMatchObject({ code: 1, stderr: "" });
        expect(() => JSON.parse(json.stdout) as unknown).not.toThrow();
      }
    });
  }

  if (!row.asksService) return;
  it("exits 1 with one line if no service answers, or the credential is wrong", async () => {
    const { words } = await row.done(scene);
    for (const json of [[], ["--json"]]) {
      const ask = (env: Record<string, string>) => refused(name, { words: [...words, ...json], env });
      const noService = `no service answers at ${nowhere}: start it with "uis serve", or set UIS_URL`;
      expectRefusal(await ask({ ...scene.env, UIS_URL: nowhere }), 1, noService);
      // The same error occurs without a credential, as before a first start.
      expectRefusal(await ask({ UIS_URL: nowhere, UIS_DATA_DIR: scene.file() }), 1, noService);
    }
    // Only one wrong credential for each command: a client address may send 60 a minute.
    const env = { ...scene.env, UIS_ADMIN_TOKEN: "not-the-token-of-this-service" };
    const refusal = `${scene.service.http} does not accept the credential in UIS_ADMIN_TOKEN: `;
    expectRefusal(await refused(name, { words: [...words, "--json"], env }), 1, refusal);
  });
});
