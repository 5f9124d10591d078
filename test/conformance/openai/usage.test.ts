import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";

const prices = { input: 10, cached_input: 1, output: 20 };
const models = [
  { id: "chat", engine: "scripted", scripted: { text: "One two three." }, prices },
  { id: "embed", engine: "scripted", scripted: { dimensions: 4 }, prices: { input: 5 } },
  { id: "rank", engine: "scripted", scripted: { rerank: true }, prices: { input: 3 } },
  { id: "slow", engine: "scripted", scripted: { text: "a b c d e f g h", token_delay_ms: 20 }, prices },
  { id: "fails", engine: "scripted", scripted: { text: "a b", fail: { after_tokens: 1, code: "upstream_error" } } },
];

interface Result {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly num_model_requests: number;
  readonly cost_nano_dollars: number;
  readonly model: string | null;
  readonly api_key_id: string | null;
  readonly operation: string | null;
}

let service: RunningService;
beforeAll(async () => {
  service = await startService({ config: { models } });
});
afterAll(() => service.close());

async function get(query: string, key = service.readKey): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(`${service.api}/usage${query}`, { headers: { authorization: `Bearer ${key}` } });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

async function today(query = "", key = service.readKey): Promise<readonly Result[]> {
  const { body } = await get(`?limit=1${query}`, key);
  const [bucket] = body["data"] as { results: Result[] }[];
  return bucket?.results ?? [];
}

async function post(path: string, body: object, key = service.key, signal?: AbortSignal): Promise<Response> {
  return await fetch(`${service.api}/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
}

const chat = (model: string, more: object = {}) => ({
  model,
  messages: [{ role: "user", content: "Say it now" }],
  ...more,
});

async function keyOf(account: string): Promise<{ id: string; secret: string }> {
  const { record, secret } = await service.service.parts.apiKeys.create({
    name: account,
    scope: "read_write",
    account,
  });
  return { id: record.id, secret };
}

describe("GET /v1/usage", () => {
  it("shows the usage of a request by model and key once it is answered (USE-10)", async () => {
    const { id, secret } = await keyOf("one");
    const answer = (await (await post("chat/completions", chat("chat"), secret)).json()) as {
      usage: { prompt_tokens: number; completion_tokens: number };
    };
    await (await post("embeddings", { model: "embed", input: "one two" }, secret)).text();
    const { prompt_tokens: prompt, completion_tokens: completion } = answer.usage;
    expect(await today("&group_by=model,key", secret)).toEqual([
      {
        object: "usage.result",
        input_tokens: prompt,
        output_tokens: completion,
        input_cached_tokens: 0,
        num_model_requests: 1,
        cost_nano_dollars: prompt * 10 + completion * 20,
        model: "chat",
        api_key_id: id,
        operation: null,
      },
      {
        object: "usage.result",
        input_tokens: 2,
        output_tokens: 0,
        input_cached_tokens: 0,
        num_model_requests: 1,
        cost_nano_dollars: 10,
        model: "embed",
        api_key_id: id,
        operation: null,
      },
    ]);
  });

  it("counts and prices the input of a ranking (USE-10, RANK-6)", async () => {
    const { secret } = await keyOf("ranks");
    const body = { model: "rank", query: "a b", documents: ["c", "d e"] };
    const { usage } = (await (await post("rerank", body, secret)).json()) as { usage: object };
    expect(usage).toEqual({ prompt_tokens: 5, total_tokens: 5 });
    expect(await today("&group_by=model", secret)).toMatchObject([
      { model: "rank", input_tokens: 5, output_tokens: 0, num_model_requests: 1, cost_nano_dollars: 15 },
    ]);
  });

  it("shows the usage of each operation (USE-10)", async () => {
    const { secret } = await keyOf("operates");
    await (await post("chat/completions", chat("chat"), secret)).text();
    await (await post("completions", { model: "chat", prompt: "Once" }, secret)).text();
    await (await post("responses", { model: "chat", input: "Once" }, secret)).text();
    await (await post("embeddings", { model: "embed", input: "one" }, secret)).text();
    await (await post("rerank", { model: "rank", query: "a", documents: ["b"] }, secret)).text();
    await (await post("messages", chat("chat", { max_tokens: 9 }), secret)).text();
    await (await post("messages/count_tokens", chat("chat"), secret)).text();
    const requests = async (groupBy: string) =>
      (await today(`&group_by=${groupBy}`, secret)).map(({ model, operation, num_model_requests: count }) => {
        return [model, operation, count];
      });
    expect(await requests("operation")).toEqual([
      [null, "chat", 1],
      [null, "completions", 1],
      [null, "count_tokens", 1],
      [null, "embeddings", 1],
      [null, "messages", 1],
      [null, "rerank", 1],
      [null, "responses", 1],
    ]);
    expect(await requests("model,operation")).toEqual([
      ["chat", "chat", 1],
      ["chat", "completions", 1],
      ["chat", "count_tokens", 1],
      ["chat", "messages", 1],
      ["chat", "responses", 1],
      ["embed", "embeddings", 1],
      ["rank", "rerank", 1],
    ]);
    expect(await requests("model")).toContainEqual(["chat", null, 5]);
  });

  it("has the shape of OpenAI's usage API", async () => {
    const { status, body } = await get("");
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual(["object", "data", "has_more", "next_page"]);
    const buckets = body["data"] as Record<string, unknown>[];
    expect(buckets).toHaveLength(7);
    for (const bucket of buckets) {
      expect(Object.keys(bucket)).toEqual(["object", "start_time", "end_time", "results"]);
      expect(Number(bucket["start_time"]) % 86_400).toBe(0);
    }
  });

  it("counts the produced tokens of a stream whose client disconnects once (state RL-7, USE-1)", async () => {
    const { secret } = await keyOf("left");
    const leave = new AbortController();
    const response = await post("chat/completions", chat("slow", { stream: true }), secret, leave.signal);
    const reader = response.body?.getReader();
    await reader?.read();
    leave.abort();
    await eventually(async () => (await today("", secret)).length === 1, "the settlement of a stream that was left");
    const [used] = await today("", secret);
    expect(used?.num_model_requests).toBe(1);
    expect(used?.output_tokens).toBeGreaterThanOrEqual(1);
    expect(used?.output_tokens).toBeLessThan(8);
  });

  it("counts a failed request, but not a rejected one (USE-1)", async () => {
    const { secret } = await keyOf("failed");
    expect((await post("chat/completions", chat("fails"), secret)).status).toBeGreaterThanOrEqual(500);
    expect((await post("chat/completions", chat("chat", { temperature: 9 }), secret)).status).toBe(400);
    expect(await today("", secret)).toMatchObject([{ num_model_requests: 1, output_tokens: 1 }]);
  });

  it("shows a key only its own account (SEC-22)", async () => {
    const [a, b] = [await keyOf("left-alone"), await keyOf("busy")];
    await (await post("chat/completions", chat("chat"), b.secret)).text();
    expect(await today("&group_by=model,key", a.secret)).toEqual([]);
    expect(await today("", b.secret)).toMatchObject([{ num_model_requests: 1 }]);
  });

  it("returns the whole range in pages by has_more and next_page", async () => {
    const start = Math.floor(Date.now() / 1_000) - 9 * 86_400;
    const first = await get(`?start_time=${start}&limit=4`);
    expect(first.body["has_more"]).toBe(true);
    const second = await get(`?start_time=${start}&limit=31&page=${String(first.body["next_page"])}`);
    expect(second.body).toMatchObject({ has_more: false, next_page: null });
    const count = ({ body }: { body: Record<string, unknown> }) => (body["data"] as unknown[]).length;
    expect(count(first) + count(second)).toBe(10);
  });

  it.each([
    ["?bucket_width=1m", "bucket_width"],
    ["?start_time=yesterday", "start_time"],
    ["?limit=32", "limit"],
    ["?group_by=color", "group_by"],
    ["?page=nowhere", "page"],
    ["?start_time=20&end_time=10", "start_time"],
  ])("rejects %s with 400 and the parameter's name", async (query, param) => {
    const { status, body } = await get(query);
    expect(status).toBe(400);
    expect(body["error"]).toMatchObject({ code: "invalid_value", param });
  });

  it("requires a key, and allows only GET", async () => {
    expect((await fetch(`${service.api}/usage`)).status).toBe(401);
    expect((await post("usage", {})).status).toBe(405);
  });
});
