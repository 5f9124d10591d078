import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type ReadyLine, type ServeProcess, spawnServe } from "../../support/service-process.js";

/**
 * How many files a reader has to open to follow a request: those of which V8 saw a function called, in all threads, during
 * a request that was made once before.
 */
describe("the files that take part", () => {
  const folder = mkdtempSync(join(tmpdir(), "uis-called-"));
  const taken = join(folder, "taken");
  /** Threads of the service that run our code: the main one and the worker of the embedded store. */
  const threads = 2;
  let signals = 0;
  let service: ServeProcess;
  let ready: ReadyLine;

  beforeAll(async () => {
    mkdirSync(taken);
    const model = { id: "four", engine: "scripted", scripted: { text: "tick", tokens: 4 } };
    // JSON is YAML. Its own traffic must not mix with what is measured.
    writeFileSync(join(folder, "uis.yaml"), JSON.stringify({ models: [model] }));
    const preload = new URL("../../support/called-files.mjs", import.meta.url).href;
    service = spawnServe({ cwd: folder, env: { CALLED_FILES: taken, NODE_OPTIONS: `--import ${preload}` } });
    ready = await service.ready;
  });

  afterAll(async () => {
    service.child.kill("SIGKILL");
    await service.exited;
    rmSync(folder, { recursive: true, force: true });
  });

  /** Files of which a function was called since the last time. */
  async function calledFiles(): Promise<string[]> {
    signals += 1;
    service.child.kill("SIGUSR2");
    const reports = () => readdirSync(taken).filter((name) => name.startsWith(`${signals}-`) && name.endsWith(".json"));
    await eventually(() => reports().length === threads);
    const files = reports().flatMap((name) => JSON.parse(readFileSync(join(taken, name), "utf8")) as string[]);
    return [...new Set(files)].sort();
  }

  async function post(path: string, secret: string, body: object): Promise<string> {
    const response = await fetch(new URL(path, ready.api), {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    expect(response.status).toBe(200);
    return await response.text();
  }

  /** Files called by the second of two equal requests. */
  async function filesOf(request: () => Promise<unknown>): Promise<string[]> {
    await request();
    await calledFiles();
    await request();
    return await calledFiles();
  }

  // A poll of the dispatcher or of metrics may add a few files to those of the request.
  it("in a streamed chat of four tokens are at most 105", async () => {
    const messages = [{ role: "user", content: "count" }];
    const files = await filesOf(() =>
      post("/v1/chat/completions", ready.api_key?.secret ?? "", { model: "four", messages, stream: true }),
    );
    expect(files).toContain("domain/inference/inference");
    expect(files.length, files.join("\n")).toBeLessThanOrEqual(105);
  });

  it("in the creation of a key are at most 70", async () => {
    const adminToken = readFileSync(join(ready.data_dir, "admin.token"), "utf8").trim();
    const files = await filesOf(() =>
      post("/unified.admin.v1.ApiKeyService/CreateApiKey", adminToken, { name: "counted", scope: "SCOPE_READ" }),
    );
    expect(files).toContain("domain/access/api-keys");
    expect(files.length, files.join("\n")).toBeLessThanOrEqual(70);
  });
});
