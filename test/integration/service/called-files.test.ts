import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type ReadyLine, type ServeProcess, spawnServe } from "../../support/service-process.js";

/**
 * How many files a reader has to open to follow a request: files with a function that V8 reports as called, in all threads,
 * while a request is repeated.
 */
describe("the number of source files that are executed", () => {
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
    const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] };
    // JSON is YAML.
    writeFileSync(join(folder, "uis.yaml"), JSON.stringify({ models: [model], webhooks }));
    const preload = new URL("../../support/called-files.mjs", import.meta.url).href;
    service = spawnServe({ cwd: folder, env: { CALLED_FILES: taken, NODE_OPTIONS: `--import ${preload}` } });
    ready = await service.ready;
  });

  afterAll(async () => {
    service.child.kill("SIGKILL");
    await service.exited;
    rmSync(folder, { recursive: true, force: true });
  });

  /** Files with a function that was called since the previous call of `calledFiles`. */
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

  /** Like `calledFiles`, until no further files are reported: the store continues to work after the answer. */
  async function calledUntilQuiet(): Promise<string[]> {
    const files = new Set<string>();
    let quiet = 0;
    await eventually(async () => {
      const before = files.size;
      for (const file of await calledFiles()) files.add(file);
      quiet = files.size === before ? quiet + 1 : 0;
      return quiet === 10;
    });
    return [...files].sort();
  }

  /**
   * Files called by a request that is repeated. Takes the smallest of three sets, because polls of the dispatcher and of the
   * spool add files when they run during a request. An answer ends after the store has written the request.
   */
  async function filesOf(request: () => Promise<unknown>, take = calledFiles): Promise<string[]> {
    await request();
    const sets: string[][] = [];
    for (let round = 0; round < 3; round++) {
      await calledUntilQuiet();
      await request();
      sets.push(await take());
    }
    return sets.reduce((smallest, files) => (files.length < smallest.length ? files : smallest));
  }

  function expectAtMost(bound: number, files: readonly string[]): void {
    const list = `${files.length} files, at most ${bound} allowed:\n${files.join("\n")}`;
    if (process.env["CALLED_PRINT"] !== undefined) process.stdout.write(`${list}\n`);
    expect(files.length, list).toBeLessThanOrEqual(bound);
  }

  const adminToken = () => readFileSync(join(ready.data_dir, "admin.token"), "utf8").trim();
  const chat = (stream: boolean) =>
    post("/v1/chat/completions", ready.api_key?.secret ?? "", {
      model: "four",
      messages: [{ role: "user", content: "count" }],
      stream,
    });

  it("is at most 60 in a streamed chat of four tokens", async () => {
    const files = await filesOf(() => chat(true));
    expect(files).toContain("domain/inference/inference");
    expectAtMost(60, files);
  });

  it("is at most 40 in the creation of a key", async () => {
    const files = await filesOf(() =>
      post("/unified.admin.v1.ApiKeyService/CreateApiKey", adminToken(), { name: "counted", scope: "SCOPE_READ" }),
    );
    expect(files).toContain("domain/access/api-keys");
    expectAtMost(40, files);
  });

  it("is at most 30 from a settlement to the delivery of its event", async () => {
    let delivered = 0;
    const receiver = createServer((req, res) => {
      req.resume().on("end", () => {
        delivered += 1;
        res.end();
      });
    }).listen(0, "127.0.0.1");
    await once(receiver, "listening");
    const { port } = receiver.address() as AddressInfo;
    const endpoint = { account: "default", url: `http://127.0.0.1:${port}/`, events: ["request.completed"] };
    await post("/unified.webhook.v1.WebhookEndpointService/CreateWebhookEndpoint", adminToken(), {
      webhookEndpoint: endpoint,
    });
    const files = await filesOf(async () => {
      const before = delivered;
      await chat(false);
      await eventually(() => delivered > before);
    }, calledUntilQuiet);
    receiver.close();
    expect(files).toContain("domain/webhooks/dispatcher");
    // The admission of the request has called files, too; this leaves those of the settlement and the delivery.
    const afterTheAnswer = /^(domain\/(metering\/(?!limit-book)|events|webhooks)|state|outbound|lib)/;
    expectAtMost(
      30,
      files.filter((file) => afterTheAnswer.test(file)),
    );
  });
});
