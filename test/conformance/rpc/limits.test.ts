import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LimitService } from "../../../gen/unified/admin/v1/limit_service_pb.js";
import { type RateLimits, unlimited } from "../../../src/domain/call/rate-limits.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { chatMethods, chatOf, createChatCompletion, createEmbeddings, rerank } from "./chat-requests.js";
import { openWay, type RpcWay, wayNames } from "./ways.js";

const { getLimits, updateLimits, resetWindow } = LimitService.method;
const config = {
  models: [
    { id: "chat", engine: "scripted", scripted: { text: "One two." } },
    { id: "embed", engine: "scripted", scripted: { dimensions: 2 } },
    { id: "rank", engine: "scripted", scripted: { rerank: true } },
  ],
};

describe.each(wayNames)("limits over %s", (name) => {
  let service: RunningService;
  let way: RpcWay;
  let accounts = 0;
  beforeAll(async () => {
    service = await startService({ config });
    way = openWay(name, service);
  });
  afterAll(async () => {
    way.close();
    await service.close();
  });

  /** Creates a key with these limits in a new account. */
  const limited = async (limits: Partial<RateLimits> = {}) => {
    const account = `account-${accounts++}`;
    const settings = { name: "limited", scope: "read_write", account, limits: { ...unlimited, ...limits } } as const;
    const { record, secret } = await service.service.parts.apiKeys.create(settings);
    return { id: record.id, account, settings: { authorization: `Bearer ${secret}` } };
  };
  const administrator = () => ({ authorization: `Bearer ${service.adminToken}` });

  it("are sent before the response, unary or streamed (wire RL-1, wire RL-4, state RL-11)", async () => {
    for (const method of chatMethods) {
      const { settings } = await limited({ requestsPerMinute: 10, tokensPerMinute: 1_000 });
      const { head, failure } = await way.call(method, chatOf("chat", { maxTokens: 50 }, "Hi"), settings);
      expect(failure).toBeNull();
      expect(Object.fromEntries([...head].filter(([key]) => key.startsWith("x-ratelimit-")))).toEqual({
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "9",
        "x-ratelimit-reset-requests": expect.stringMatching(/^1m[0-5](\.\d{1,3})?s$/),
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "949",
        "x-ratelimit-reset-tokens": expect.stringMatching(/^1m[0-5](\.\d{1,3})?s$/),
      });
    }
    const { settings } = await limited({ tokensPerMinute: 1_000 });
    const { head } = await way.call(createEmbeddings, { params: { model: "embed", input: ["a b"] } }, settings);
    expect(head.get("x-ratelimit-remaining-tokens")).toBe("998");
    // Two tokens for the first request; for the second, the query counts once for each document.
    const ranked = await way.call(
      rerank,
      { params: { model: "rank", query: "a b", documents: ["c", "d e"] } },
      settings,
    );
    expect(ranked.head.get("x-ratelimit-remaining-tokens")).toBe("991");
  });

  it("reject with RESOURCE_EXHAUSTED and the limit's values, also before the body is read (state RL-8, state RL-9, wire RL-1)", async () => {
    for (const method of chatMethods) {
      const { settings } = await limited({ requestsPerMinute: 1, tokensPerMinute: 100 });
      const large = await way.call(method, chatOf("chat", { maxTokens: 500 }, "Hi"), settings);
      expect(large.failure).toMatchObject({ code: status.RESOURCE_EXHAUSTED, type: "tokens", retryDelayMs: null });
      expect(large.failure?.metadata.get("x-should-retry")).toBe("false");
      await way.call(method, chatOf("chat", { maxTokens: 5 }, "Hi"), settings);
      // The second request is rejected from the process's rejection cache.
      for (let i = 0; i < 2; i++) {
        const { failure } = await way.call(method, chatOf("chat", { maxTokens: 5 }, "Hi"), settings);
        expect(failure).toMatchObject({
          code: status.RESOURCE_EXHAUSTED,
          reason: "RATE_LIMIT_EXCEEDED",
          type: "requests",
          message: expect.stringContaining("of this API key: limit 1, used 1, requested 1."),
        });
        expect(failure?.metadata.get("x-ratelimit-remaining-requests")).toBe("0");
      }
    }
  });

  it("can be set, read with their usage, and removed by the administrator (state RL-15, state RL-22)", async () => {
    const { account, settings } = await limited();
    const owner = { owner: { case: "account", value: account } } as const;
    const set = await way.call(updateLimits, { owner, limits: { requestsPerMinute: 2n } }, administrator());
    expect(set.messages[0]?.report).toMatchObject({
      account,
      own: { requestsPerMinute: 2n },
      effective: { requestsPerMinute: 2n },
      use: { requests: 0n, running: 0 },
    });
    const { head } = await way.call(createChatCompletion, chatOf("chat"), settings);
    expect(head.get("x-ratelimit-remaining-requests")).toBe("1");
    const seen = await way.call(getLimits, { owner }, administrator());
    expect(seen.messages[0]?.report).toMatchObject({ own: { requestsPerMinute: 2n }, use: { requests: 1n } });
    await way.call(updateLimits, { owner }, administrator());
    const after = await way.call(createChatCompletion, chatOf("chat"), settings);
    expect(after.head.has("x-ratelimit-remaining-requests")).toBe(false);
  });

  it("admit a key immediately after its window was reset (state RL-22)", async () => {
    const { id, settings } = await limited({ requestsPerMinute: 1 });
    const ask = async () => (await way.call(createChatCompletion, chatOf("chat"), settings)).failure?.code ?? status.OK;
    expect([await ask(), await ask(), await ask()]).toEqual([0, status.RESOURCE_EXHAUSTED, status.RESOURCE_EXHAUSTED]);
    const owner = { owner: { case: "apiKeyId", value: id } } as const;
    const { messages } = await way.call(resetWindow, { owner }, administrator());
    expect(messages[0]?.report).toMatchObject({ own: { requestsPerMinute: 1n }, use: { requests: 0n } });
    expect(await ask()).toBe(status.OK);
    const { records } = await service.service.parts.state.audit.list({ limit: 1, after: null });
    expect(records).toMatchObject([{ action: "limits.reset_window", target: id, actor: { kind: "admin_token" } }]);
  });

  it("can be changed only by the administrator (SEC-2)", async () => {
    const owner = { owner: { case: "account", value: "default" } } as const;
    for (const method of [getLimits, updateLimits, resetWindow]) {
      expect((await way.call(method, { owner })).failure?.code).toBe(status.PERMISSION_DENIED);
    }
  });

  it("are rejected without an owner, and the error names the field", async () => {
    const { failure } = await way.call(getLimits, {}, administrator());
    expect(failure).toMatchObject({ code: status.INVALID_ARGUMENT, param: "owner", fields: ["owner"] });
  });
});
