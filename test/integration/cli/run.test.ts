import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uis } from "../../support/cli-run.js";
import { uisProgram } from "../../support/program.js";
import { type DebugState, type RunningService, startService } from "../../support/start-service.js";

const models = [
  { id: "test-chat", engine: "scripted", scripted: { text: "Hello from the script." } },
  { id: "echo", engine: "scripted" },
  { id: "endless", engine: "scripted", scripted: { text: "tick", tokens: 4_000, token_delay_ms: 20 } },
  { id: "slow", engine: "scripted", scripted: { text: "tick", tokens: 20, token_delay_ms: 20 } },
  { id: "steering", engine: "scripted", scripted: { text: "\u001b[2Jred \u001b]52;c;x\u0007" } },
  {
    id: "failing",
    engine: "scripted",
    scripted: { text: "one two three", fail: { after_tokens: 2, code: "internal_error" } },
  },
];
let service: RunningService;
let env: Record<string, string>;

beforeAll(async () => {
  service = await startService({ config: { models } });
  env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
});

afterAll(() => service.close());

describe("uis run", () => {
  it("prints each token as soon as the model has generated it", async () => {
    const atFirst: Promise<DebugState>[] = [];
    const pieces: string[] = [];
    const onStdout = (text: string) => {
      if (pieces.push(text) === 1) atFirst.push(service.debugState());
    };
    const { code, stdout } = await uis(["run", "slow", "Hi"], { env, onStdout });
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${"tick ".repeat(19)}tick\n` });
    expect(pieces.filter((piece) => piece.trim() !== "")).toHaveLength(20);
    expect((await atFirst[0])?.requests.running).toBe(1);
  });

  it("strips control characters for a terminal, and writes every byte to a pipe (SEC-24)", async () => {
    const words = ["run", "steering", "Hi"];
    expect((await uis(words, { env, isTTY: true })).stdout).toBe("[2Jred ]52;c;x\n");
    expect((await uis(words, { env })).stdout).toBe("\u001b[2Jred \u001b]52;c;x\u0007\n");
  });

  it("prints the partial answer, and exits 1, if the model fails", async () => {
    const { code, stdout, stderr } = await uis(["run", "failing", "Hi"], { env });
    expect({ code, stdout }).toEqual({ code: 1, stdout: "one two" });
    expect(stderr).toMatch(/^uis: .+\n$/);
  });

  it("streams the answer as text, with an API key or as the administrator", async () => {
    expect(await uis(["run", "test-chat", "Hi"], { env })).toMatchObject({
      code: 0,
      stdout: "Hello from the script.\n",
    });
    const asCaller = { UIS_URL: service.http, UIS_API_KEY: service.key };
    expect((await uis(["run", "test-chat", "Hi"], { env: asCaller })).stdout).toBe("Hello from the script.\n");
    const file = join(service.dataDir, "api.key");
    await writeFile(file, `${service.key}\n`);
    const fromFile = { UIS_URL: service.http, UIS_API_KEY_FILE: file };
    expect((await uis(["run", "test-chat", "Hi"], { env: fromFile })).stdout).toBe("Hello from the script.\n");
    const gone = { UIS_URL: service.http, UIS_API_KEY_FILE: join(service.dataDir, "gone") };
    const { code, stderr } = await uis(["run", "test-chat", "Hi"], { env: gone });
    expect(code).toBe(2);
    expect(stderr).toContain("UIS_API_KEY_FILE: cannot be read");
  });

  it("reads the prompt from stdin, and sends the system message and the sampling settings", async () => {
    const words = ["run", "echo", "--system", "Be brief.", "--temperature", "0", "--top-p", "0.5"];
    const options = [...words, "--max-tokens", "2", "--seed", "7"];
    expect(await uis(options, { env, stdin: "one two three\n" })).toMatchObject({ code: 0, stdout: "one two\n" });
    const { stdout } = await uis([...options, "--json"], { env, stdin: "one two three" });
    expect(JSON.parse(stdout)).toMatchObject({ choices: [{ finish_reason: "length" }], usage: { prompt_tokens: 5 } });
    const none = await uis(["run", "echo"], { env, stdin: " \n" });
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining("missing prompt") });
  });

  // `script` of util-linux gives the program a terminal; other systems have another program of that name.
  it.runIf(process.platform === "linux")("is a chat on a terminal, in which Ctrl-C stops the answer", async () => {
    const command = `${[process.execPath, ...uisProgram].join(" ")} run endless`;
    const [program = "", ...args] = ["script", "-qfec", command, "/dev/null"];
    const child = spawn(program, args, {
      env: { PATH: process.env["PATH"], NO_COLOR: "1", ...env },
    });
    const exited = once(child, "close");
    let shown = "";
    child.stdout.on("data", (data: Buffer) => {
      shown += data;
    });
    const wait = (text: string) => expect.poll(() => shown, { timeout: 30_000 }).toContain(text);
    await wait(">>> ");
    child.stdin.write("Hi\r");
    await wait("tick tick");
    child.stdin.write("\u0003");
    await wait("[stopped]");
    await expect.poll(async () => (await service.debugState()).requests.running).toBe(0);
    child.stdin.write("/bye\r");
    expect(await exited).toEqual([0, null]);
  });

  it("prints the chat completion object with --json", async () => {
    const { code, stdout, stderr } = await uis(["run", "test-chat", "Hi", "--json"], { env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(JSON.parse(stdout)).toMatchObject({ object: "chat.completion", model: "test-chat" });
  });

  it("exits 1 with the service's message for an unknown model", async () => {
    for (const extra of [[], ["--json"]]) {
      const { code, stdout, stderr } = await uis(["run", "no-such-model", "Hi", ...extra], { env });
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toContain("no-such-model");
    }
  });
});
