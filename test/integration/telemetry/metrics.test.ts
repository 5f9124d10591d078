import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { metricTable } from "../../../src/telemetry/metrics/metric-table.js";
import { chatOf, createChatCompletion, streamChatCompletion } from "../../conformance/rpc/chat-requests.js";
import { openWay, wayNames } from "../../conformance/rpc/ways.js";
import { metricLines } from "../../support/metrics-text.js";
import { type RunningService, type StartOptions, startService } from "../../support/start-service.js";

const text = "One two three four five.";

let service: RunningService;

afterEach(async () => {
  await service.close();
});

async function start(options: StartOptions = {}): Promise<void> {
  service = await startService({
    ...options,
    config: {
      models: [
        { id: "m", engine: "scripted", scripted: { text, token_delay_ms: 1 } },
        { id: "e", engine: "scripted", scripted: { dimensions: 8 } },
        { id: "r", engine: "scripted", scripted: { rerank: true } },
        { id: "slow", engine: "scripted", scripted: { tokens: 100_000, text: "tick", token_delay_ms: 5 } },
      ],
      ...options.config,
    },
  });
}

const scrape = async (): Promise<string> => (await fetch(`${service.ops}/metrics`)).text();

interface RestOptions {
  readonly key?: string;
  readonly signal?: AbortSignal;
}

function post(path: string, body: object, { key = service.key, signal }: RestOptions = {}): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  return fetch(`${service.api}${path}`, signal === undefined ? init : { ...init, signal });
}

async function chat(fields: object = {}, options: RestOptions = {}): Promise<number> {
  const messages = [{ role: "user", content: "x" }];
  const response = await post("/chat/completions", { model: "m", messages, ...fields }, options);
  await response.text();
  return response.status;
}

describe("/metrics", () => {
  it("counts calls of every transport once, with their tokens", async () => {
    await start();
    for (const name of wayNames) {
      const way = openWay(name, service);
      expect((await way.call(createChatCompletion, chatOf("m"))).failure).toBeNull();
      expect((await way.call(streamChatCompletion, chatOf("m"))).failure).toBeNull();
      way.close();
    }
    expect(await chat()).toBe(200);
    expect(await chat({ stream: true })).toBe(200);
    const embedded = (await (await post("/embeddings", { model: "e", input: "x y" })).json()) as {
      usage: { prompt_tokens: number };
    };
    await (await post("/responses", { model: "m", input: "x" })).text();
    await (await post("/rerank", { model: "r", query: "x", documents: ["y z"] })).text();
    const message = { model: "m", messages: [{ role: "user", content: "x" }] };
    await (await post("/messages", { ...message, max_tokens: 100 })).text();
    await (await post("/messages/count_tokens", message)).text();
    await (await fetch(`${service.api}/models`, { headers: { authorization: `Bearer ${service.key}` } })).text();
    const lines = (name: string) => scrape().then((page) => metricLines(page, name));

    await expect
      .poll(() => lines("uis_requests_total"))
      .toEqual({
        '{route="create_chat_completion",model="m",operation="chat",code="ok"}': 10,
        '{route="create_response",model="m",operation="responses",code="ok"}': 1,
        '{route="create_embeddings",model="e",operation="embeddings",code="ok"}': 1,
        '{route="rerank",model="r",operation="rerank",code="ok"}': 1,
        '{route="create_message",model="m",operation="messages",code="ok"}': 1,
        '{route="count_tokens",model="m",operation="count_tokens",code="ok"}': 1,
        '{route="list_models",model="",operation="",code="ok"}': 1,
      });
    const completed = (await service.debugState()).models.find(({ id }) => id === "m")?.produced_tokens;
    expect(await lines("uis_tokens_total")).toMatchObject({
      '{model="m",type="completion"}': completed,
      '{model="e",type="prompt"}': embedded.usage.prompt_tokens,
      '{model="r",type="prompt"}': 3,
    });
    const chats = '{route="create_chat_completion",model="m"}';
    expect((await lines("uis_time_to_first_token_seconds_count"))[chats]).toBe(5);
    for (const name of ["request_duration", "inter_token_latency", "queue_time", "overhead"]) {
      expect((await lines(`uis_${name}_seconds_count`))[chats]).toBe(10);
    }
    const ofGenAi = (operation_name: string, request_model: string) =>
      Object.entries({ operation_name, provider_name: "unified_inference", request_model })
        .map(([label, value]) => `gen_ai_${label}="${value}"`)
        .join();
    expect(await lines("gen_ai_server_request_duration_seconds_count")).toMatchObject({
      [`{${ofGenAi("chat", "m")}}`]: 12,
      [`{${ofGenAi("rerank", "r")}}`]: 1,
    });
  });

  it("shows running calls, rejections by reason, and disconnected clients", async () => {
    await start({ config: { rate_limits: { default_key: { requests_per_minute: 3 } } } });
    const leave = new AbortController();
    const running = await post(
      "/chat/completions",
      { model: "slow", stream: true, messages: [{ role: "user", content: "x" }] },
      leave,
    );
    expect(metricLines(await scrape(), "uis_requests_running")).toMatchObject({
      '{model="slow"}': 1,
    });
    leave.abort();
    await running.text().catch(() => {});
    expect(await chat()).toBe(200);
    expect(await chat()).toBe(200);
    expect(await chat()).toBe(429);
    expect(await chat()).toBe(429);
    expect(await chat({}, { key: "sk-uis-wrong" })).toBe(401);
    await expect
      .poll(async () => metricLines(await scrape(), "uis_client_cancelled_total"))
      .toEqual({ '{stage="running"}': 1 });
    const page = await scrape();
    expect(metricLines(page, "uis_ratelimit_hits_total")).toEqual({ '{limit="requests"}': 2 });
    expect(metricLines(page, "uis_rejections_total")).toEqual({
      '{reason="rate_limit_exceeded"}': 2,
      '{reason="invalid_api_key"}': 1,
    });
    expect(metricLines(page, "uis_requests_running")).toMatchObject({ '{model="slow"}': 0 });
    expect(metricLines(page, "uis_usage_unrecorded_total")).toEqual({ "": 0 });
    expect(metricLines(page, "uis_store_up")).toEqual({ "": 1 });
  });

  it("shows each documented metric with its labels, and no undocumented metric of this service", async () => {
    await start({ config: { rate_limits: { default_key: { requests_per_minute: 1 } } } });
    expect(await chat({ stream: true })).toBe(200);
    expect(await chat()).toBe(429);
    const page = await scrape();
    const typed = [...page.matchAll(/^# TYPE ((?:uis|gen_ai)_\w+) (\w+)$/gm)].map(([, name, type]) => [name, type]);
    expect(typed).toEqual(Object.entries(metricTable).map(([name, { type }]) => [name, type]));
    expect(page).toMatch(/^process_cpu_seconds_total /m);
    expect(page).toMatch(/^nodejs_eventloop_lag_seconds /m);
    const wrong = [...page.matchAll(/^((?:uis|gen_ai)_\w+?)(?:_bucket|_sum|_count)?\{(.*)\} /gm)].filter(
      ([, name = "", labels = ""]) => {
        const row = (metricTable as Record<string, { labels: readonly string[] }>)[name];
        const used = [...labels.matchAll(/(\w+)="/g)].map(([, label]) => label).filter((label) => label !== "le");
        return row === undefined || used.some((label) => label === undefined || !row.labels.includes(label));
      },
    );
    expect(wrong).toEqual([]);
  });

  it("counts all requests for unknown models in one series (SEC-24)", async () => {
    await start();
    const seriesOf = (page: string) => page.split("\n").filter((line) => /^(uis|gen_ai)_/.test(line)).length;
    const before = seriesOf(await scrape());
    expect(await chat({ model: "invented" })).toBe(404);
    const withOne = seriesOf(await scrape());
    for (let i = 0; i < 100; i++) expect(await chat({ model: `invented-${i}\n"} 1` })).toBe(404);
    const page = await scrape();
    expect(withOne).toBeGreaterThan(before);
    expect(seriesOf(page)).toBe(withOne);
    expect(page).not.toContain("invented");
    expect(metricLines(page, "uis_requests_total")).toEqual({
      '{route="create_chat_completion",model="unknown",operation="chat",code="model_not_found"}': 101,
    });
  });

  it("is not on the public listener, and contains no key, key id or text (SEC-3, SEC-18)", async () => {
    await start({ env: { UIS_BOOTSTRAP_API_KEY: "bootstrap-CANARY-key" } });
    expect(await chat({ messages: [{ role: "user", content: "prompt-CANARY" }], user: "user-CANARY" })).toBe(200);
    expect(await chat({ messages: [{ role: "prompt-CANARY", content: "x" }] })).toBe(400);
    expect(await chat({}, { key: "wrong-CANARY-key" })).toBe(401);
    const page = await scrape();
    expect(page).not.toContain("CANARY");
    expect(page).not.toContain("One two");
    for (const { id } of (await service.service.parts.apiKeys.list({ account: "", pageSize: 10, pageToken: "" }))
      .records) {
      expect(page).not.toContain(id);
    }
    expect((await fetch(`${service.http}/metrics`)).status).toBe(404);
  });

  it("starts at zero with each process, unlike billed usage (USE-19)", async () => {
    const folder = await mkdtemp(join(tmpdir(), "uis-metrics-"));
    const config = { state: { durability: "every-write" }, data_dir: join(folder, "data") };
    const env = { UIS_BOOTSTRAP_API_KEY: "bootstrap-key-of-the-test" };
    const counted = '{route="create_chat_completion",model="m",operation="chat",code="ok"}';
    const billed = async () => {
      const headers = { authorization: `Bearer ${env.UIS_BOOTSTRAP_API_KEY}` };
      const page = await fetch(`${service.api}/usage?bucket_width=1d&limit=1`, { headers });
      const { data } = (await page.json()) as { data: { results: { num_model_requests: number }[] }[] };
      return data[0]?.results[0]?.num_model_requests;
    };
    await start({ config, env });
    for (let i = 0; i < 3; i++) expect(await chat({}, { key: env.UIS_BOOTSTRAP_API_KEY })).toBe(200);
    await expect.poll(async () => metricLines(await scrape(), "uis_requests_total")).toMatchObject({ [counted]: 3 });
    expect(await billed()).toBe(3);
    await service.close();
    await start({ config, env });
    expect(metricLines(await scrape(), "uis_requests_total")).toEqual({});
    expect(await billed()).toBe(3);
    await rm(folder, { recursive: true });
  });
});
