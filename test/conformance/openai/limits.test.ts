import { request as httpRequest } from "node:http";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RateLimits } from "../../../src/domain/call/rate-limits.js";
import { unlimited } from "../../../src/domain/call/rate-limits.js";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError, type Reply, user } from "./api.js";

const config = {
  models: [
    { id: "test-chat", engine: "scripted", scripted: { text: "One two three four." } },
    { id: "test-embed", engine: "scripted", scripted: { dimensions: 2 } },
    { id: "test-rerank", engine: "scripted", scripted: { rerank: true } },
    { id: "hangs", engine: "scripted", scripted: { text: "One two three four.", hang_after_tokens: 2 } },
    { id: "fails", engine: "scripted", scripted: { text: "One two.", fail: { code: "internal_error" } } },
    { id: "rare", engine: "scripted", scripted: { text: "One." } },
  ],
  rate_limits: { models: { rare: { requests_per_minute: 1 } } },
};

let service: RunningService;
let accounts = 0;
beforeAll(async () => {
  service = await startService({ config });
});
afterAll(() => service.close());

/** Creates a key with these limits, in a new account unless one is given. */
async function limited(limits: Partial<RateLimits>, account = `account-${accounts++}`) {
  const { apiKeys } = service.service.parts;
  const settings = { name: "limited", scope: "read_write", account, limits: { ...unlimited, ...limits } } as const;
  const { secret } = await apiKeys.create(settings);
  return { secret, api: createApi({ http: service.http, key: secret }), account };
}

function limitHeaders({ headers }: Pick<Reply, "headers">): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => name.startsWith("x-ratelimit-")));
}

const remainingTokens = async (answer: Promise<Reply>) =>
  Number((await answer).headers.get("x-ratelimit-remaining-tokens"));

describe("limit headers", () => {
  it.each([
    ["a whole chat", (api: Api) => api.chat({ max_tokens: 50 }), 51],
    ["a streamed chat", (api: Api) => api.chat({ max_tokens: 50, stream: true }), 51],
    ["a response", (api: Api) => api.response({ max_output_tokens: 50 }), 51],
    ["a streamed response", (api: Api) => api.response({ max_output_tokens: 50, stream: true }), 51],
    ["a completion", (api: Api) => api.completion({ max_tokens: 50, n: 2 }), 102],
    ["a streamed completion", (api: Api) => api.completion({ max_tokens: 50, stream: true }), 52],
    ["a batch", (api: Api) => api.completion({ max_tokens: 50, prompt: ["a", "b c"] }), 103],
    ["embeddings", (api: Api) => api.embeddings({ input: ["a b", "c"] }), 3],
    ["a ranking", (api: Api) => api.rerank({ query: "a b", documents: ["c", "d e"] }), 7],
    ["a message", (api: Api) => api.message({ max_tokens: 50 }), 51],
    ["a streamed message", (api: Api) => api.message({ max_tokens: 50, stream: true }), 51],
  ])("are sent for %s (wire RL-1, wire RL-3, wire RL-4, state RL-5, state RL-11)", async (_what, ask, reserved) => {
    const { api } = await limited({ requestsPerMinute: 10, tokensPerMinute: 10_000 });
    const reply = await ask(api);
    expect(reply.status).toBe(200);
    expect(limitHeaders(reply)).toEqual({
      "x-ratelimit-limit-requests": "10",
      "x-ratelimit-remaining-requests": "9",
      "x-ratelimit-reset-requests": expect.stringMatching(/^1m[0-5](\.\d{1,3})?s$/),
      "x-ratelimit-limit-tokens": "10000",
      "x-ratelimit-remaining-tokens": String(10_000 - reserved),
      "x-ratelimit-reset-tokens": expect.stringMatching(/^1m[0-5](\.\d{1,3})?s$/),
    });
  });

  it("are sent before the first byte of a stream (wire RL-4, state RL-11)", async () => {
    const { secret } = await limited({ requestsPerMinute: 10 });
    const abort = new AbortController();
    const response = await fetch(`${service.api}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "hangs", messages: [user], stream: true }),
      signal: abort.signal,
    });
    expect(limitHeaders(response)).toMatchObject({ "x-ratelimit-remaining-requests": "9" });
    abort.abort();
  });

  it("are omitted for a dimension without a limit, and completely without limits (wire RL-1)", async () => {
    const { api } = await limited({ requestsPerMinute: 10 });
    expect(Object.keys(limitHeaders(await api.chat()))).toHaveLength(3);
    expect(limitHeaders(await createApi(service).chat())).toEqual({});
  });

  it("have the values of the key's or the account's limit, whichever is stricter (state RL-11)", async () => {
    const { account } = await limited({});
    const admin = service.service.parts.state.limits;
    const owner = { kind: "account", id: account } as const;
    await admin.put({ owner, limits: { ...unlimited, requestsPerMinute: 5, tokensPerMinute: 500 }, updatedAtMs: 0 });
    const { api } = await limited({ requestsPerMinute: 3, tokensPerMinute: 9_000 }, account);
    await eventually(async () => limitHeaders(await api.embeddings())["x-ratelimit-limit-tokens"] === "500");
    expect(limitHeaders(await api.embeddings())).toMatchObject({
      "x-ratelimit-limit-requests": "3",
      "x-ratelimit-limit-tokens": "500",
    });
  });

  it("are omitted when models are listed, which costs nothing (wire RL-7, state RL-13)", async () => {
    const { api } = await limited({ requestsPerMinute: 1, tokensPerMinute: 100 });
    for (let i = 0; i < 3; i++) {
      const reply = await api.get("/v1/models");
      expect([reply.status, limitHeaders(reply)]).toEqual([200, {}]);
    }
    expect((await api.embeddings()).status).toBe(200);
  });
});

describe("a request limit", () => {
  it("rejects with its values, the retry delay and the window's headers (ERR-19, ERR-27, HDR-4, state RL-9, state RL-10, wire RL-1)", async () => {
    const { api } = await limited({ requestsPerMinute: 1 });
    expect((await api.chat()).status).toBe(200);
    const reply = await api.chat();
    expectError(reply, 429, "rate_limit_exceeded");
    expect(reply.json.error.type).toBe("requests");
    expect(reply.json.error.message).toMatch(
      /^Rate limit reached for the requests per minute of this API key: limit 1, used 1, requested 1\. Try again in [\dm.]+s\.$/,
    );
    expect(limitHeaders(reply)).toMatchObject({
      "x-ratelimit-limit-requests": "1",
      "x-ratelimit-remaining-requests": "0",
    });
    expectAdvice(reply);
  });

  it("rejects a second request before its body is read", async () => {
    const { secret, api } = await limited({ requestsPerMinute: 1 });
    await api.chat();
    expect((await api.chat()).status).toBe(429);
    const response = await answerToHead(secret);
    expect(response.status).toBe(429);
    expect(response.headers["x-ratelimit-remaining-requests"]).toBe("0");
    const message = JSON.parse(response.text).error.message;
    expect(message).toContain("limit 1, used 1, requested 1");
  });

  it("charges one request and no tokens for a request that validation rejects (state RL-14)", async () => {
    const { api } = await limited({ requestsPerMinute: 5, tokensPerMinute: 1_000 });
    expectError(await api.chat({ temperature: 5 }), 400, "decimal_above_max_value", "temperature");
    expectError(await api.send("POST", "/v1/chat/completions", "{"), 400, "invalid_json");
    expect(limitHeaders(await api.embeddings({ input: "a" }))).toMatchObject({
      "x-ratelimit-remaining-requests": "2",
      "x-ratelimit-remaining-tokens": "999",
    });
  });

  it("of a model applies to each account separately (state RL-1)", async () => {
    const [one, two] = [await limited({}), await limited({})];
    expect((await one.api.chat({ model: "rare" })).status).toBe(200);
    const refused = await one.api.chat({ model: "rare" });
    expectError(refused, 429, "rate_limit_exceeded");
    expect(refused.json.error.message).toContain("the model 'rare' in this account");
    expect((await one.api.chat()).status).toBe(200);
    expect((await two.api.chat({ model: "rare" })).status).toBe(200);
  });
});

describe("a token limit", () => {
  it("marks a request larger than the limit as not retryable and charges nothing (ERR-20, state RL-8, wire RL-5, RETRY-3)", async () => {
    const { api } = await limited({ tokensPerMinute: 100, requestsPerMinute: 2 });
    const reply = await api.chat({ max_tokens: 500 });
    expectError(reply, 429, "rate_limit_exceeded");
    expect(reply.json.error).toMatchObject({ type: "tokens" });
    expect(reply.json.error.message).toContain("Request too large");
    expect(reply.json.error.message).toContain("limit 100, used 0, requested 501");
    expect(reply.headers.get("x-should-retry")).toBe("false");
    expect([reply.headers.get("retry-after"), reply.headers.get("retry-after-ms")]).toEqual([null, null]);
    expect(limitHeaders(await api.chat({ max_tokens: 10 }))).toMatchObject({
      "x-ratelimit-remaining-requests": "1",
      "x-ratelimit-remaining-tokens": "89",
    });
  });

  it("returns unused reserved tokens at the end of a request (wire RL-6, state RL-6)", async () => {
    const { api } = await limited({ tokensPerMinute: 1_000 });
    expect(await remainingTokens(api.chat({ max_tokens: 500 }))).toBe(499);
    // The answer used one prompt token and four completion tokens.
    expect(await remainingTokens(api.chat({ max_tokens: 10 }))).toBe(1_000 - 5 - 11);
    // Another five tokens. The query is reserved once for each document, but the engine counts it once.
    const ranking = () => remainingTokens(api.rerank({ query: "a b", documents: ["c", "d e"] }));
    expect([await ranking(), await ranking()]).toEqual([1_000 - 10 - 7, 1_000 - 10 - 5 - 7]);
  });

  it("charges a stream whose client disconnects for its prompt and the produced tokens (state RL-7)", async () => {
    const { secret, api } = await limited({ tokensPerMinute: 1_000 });
    const abort = new AbortController();
    const response = await fetch(`${service.api}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "hangs", messages: [user], stream: true, max_tokens: 500 }),
      signal: abort.signal,
    });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; !text.includes("two"); text += (await reader?.read())?.value ?? "");
    abort.abort();
    await eventually(async () => (await service.debugState()).requests.running === 0);
    expect(await remainingTokens(api.embeddings({ input: "a" }))).toBe(1_000 - 3 - 1);
  });

  it("returns reserved tokens if the engine fails before the first token, but the request stays charged (state RL-14)", async () => {
    const { api } = await limited({ requestsPerMinute: 5, tokensPerMinute: 1_000 });
    expect((await api.chat({ model: "fails", max_tokens: 500 })).status).toBe(500);
    expect(limitHeaders(await api.embeddings({ input: "a" }))).toMatchObject({
      "x-ratelimit-remaining-requests": "3",
      "x-ratelimit-remaining-tokens": "999",
    });
  });
});

describe("a concurrency limit", () => {
  it("counts running requests, and admits another one when one ends (state RL-1, state RL-18, RETRY-1)", async () => {
    const { secret, api } = await limited({ concurrency: 1 });
    const abort = new AbortController();
    await fetch(`${service.api}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "hangs", messages: [user], stream: true }),
      signal: abort.signal,
    });
    const reply = await api.chat();
    expectError(reply, 429, "rate_limit_exceeded");
    expect(reply.json.error.type).toBe("requests");
    expect([reply.headers.get("retry-after"), reply.headers.get("retry-after-ms")]).toEqual(["1", "1000"]);
    abort.abort();
    await eventually(async () => (await api.chat()).status === 200);
  });
});

describe("limits of a running service", () => {
  it("are reloaded from the configuration without a restart (state RL-15)", async () => {
    const { reload, config: before } = service.service;
    const { api } = await limited({});
    const limits = { ...before.rate_limits.default_key, requests_per_minute: 7 };
    await reload.apply({ ...before, rate_limits: { ...before.rate_limits, default_key: limits } }, []);
    expect(limitHeaders(await api.chat())).toMatchObject({ "x-ratelimit-limit-requests": "7" });
    await reload.apply(before, []);
    expect(limitHeaders(await api.chat())).toEqual({});
  });

  it("are shown by OpenAI's SDK, which raises immediately if a retry is useless (wire RL-1, RETRY-3)", async () => {
    const { secret } = await limited({ tokensPerMinute: 100 });
    let attempts = 0;
    const client = new OpenAI({
      apiKey: secret,
      baseURL: service.api,
      fetch: (input, init) => {
        attempts += 1;
        return fetch(input, init);
      },
    });
    const ask = (maxTokens: number) =>
      client.chat.completions
        .create({ model: "test-chat", messages: [{ role: "user", content: "Hi" }], max_tokens: maxTokens })
        .withResponse();
    const { response } = await ask(9);
    expect(response.headers.get("x-ratelimit-remaining-tokens")).toBe("90");
    const raised = await ask(500).catch((error: unknown) => error);
    if (!(raised instanceof OpenAI.RateLimitError)) throw new Error(`raised ${String(raised)}`);
    expect(raised).toMatchObject({ status: 429, code: "rate_limit_exceeded", type: "tokens" });
    expect(raised.headers.get("x-ratelimit-limit-tokens")).toBe("100");
    expect(attempts).toBe(2);
  });
});

/** The retry delay in the message, in milliseconds. */
function waitOf(message: string): number {
  const [, minutes = "0", seconds = "0"] = /Try again in (?:(\d+)m)?([\d.]+)s\.$/.exec(message) ?? [];
  return Number(minutes) * 60_000 + Math.round(Number(seconds) * 1_000);
}

/** Expects the message's delay in the headers; for more than a minute SDKs are advised not to retry (RETRY-1, RETRY-2). */
function expectAdvice({ headers, json }: Reply): void {
  const waitMs = waitOf(json.error.message);
  expect(waitMs).toBeGreaterThan(0);
  expect(waitMs).toBeLessThanOrEqual(65_000);
  const advice = ["retry-after", "retry-after-ms", "x-should-retry"].map((name) => headers.get(name));
  expect(advice).toEqual([String(Math.ceil(waitMs / 1_000)), String(waitMs), waitMs > 60_000 ? "false" : null]);
}

/** The response to a request whose body is never sent. */
function answerToHead(secret: string) {
  return new Promise<{ status: number | undefined; headers: NodeJS.Dict<string | string[]>; text: string }>(
    (resolve, reject) => {
      const request = httpRequest(`${service.api}/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${secret}`,
          "content-type": "application/json",
          "content-length": "1000",
        },
      });
      request.on("error", reject);
      request.on("response", (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (piece: string) => {
          text += piece;
        });
        response.on("end", () => {
          resolve({ status: response.statusCode, headers: response.headers, text });
          request.destroy();
        });
      });
      request.flushHeaders();
    },
  );
}
