import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uis } from "../../support/cli-run.js";
import { type DebugState, type RunningService, startService } from "../../support/start-service.js";

const models = [
  { id: "test-chat", engine: "scripted", scripted: { text: "Hello from the script." } },
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
  it("prints each token while the model generates the next", async () => {
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
