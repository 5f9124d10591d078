import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";

const models = [
  { id: "test-chat", engine: "scripted", scripted: { text: "Hello." } },
  { id: "test-hang", engine: "scripted", scripted: { text: "One two.", hang_after_tokens: 1 } },
];

describe.each(["none", "every-write"] as const)("the life of a key with durability %s", (durability) => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService({ config: { state: { durability }, models } });
  });
  afterAll(() => service.close());

  const keys = () => service.service.parts.apiKeys;
  const newKey = (expiresAtMs: number | null = null) =>
    keys().create({ name: "test", scope: "read_write", models: [], expiresAtMs });
  const listModels = (secret: string) =>
    fetch(`${service.api}/models`, { headers: { authorization: `Bearer ${secret}` } });
  const statusOf = async (secret: string) => {
    const answer = await listModels(secret);
    await answer.arrayBuffer();
    return answer.status;
  };
  const stream = async (secret: string, model: string) => {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }], stream: true });
    const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
    return (await fetch(`${service.api}/chat/completions`, { method: "POST", headers, body })).text();
  };
  const isRunning = async () => (await service.debugState()).requests.running > 0;

  it("ends with its revocation, which rejects the next request, ends the running stream and affects no other key (KEY-9, KEY-13)", async () => {
    const [revoked, spared] = [await newKey(), await newKey()];
    const running = stream(revoked.secret, "test-hang");
    await eventually(isRunning, "the stream runs");
    await keys().revoke(revoked.record.id);
    expect(await statusOf(revoked.secret)).toBe(401);
    const text = await running;
    expect(text).toContain("invalid_api_key");
    expect(text).not.toContain("[DONE]");
    expect(await statusOf(spared.secret)).toBe(200);
    expect(await stream(spared.secret, "test-chat")).toContain("[DONE]");
  });

  it("includes new lists of models, which apply from the next request (KEY-8, KEY-9)", async () => {
    const { record, secret } = await newKey();
    const seen = async () => ((await (await listModels(secret)).json()) as { data: { id: string }[] }).data;
    expect(await seen()).toHaveLength(2);
    await keys().update(record.id, { models: ["test-ch*"] });
    expect((await seen()).map(({ id }) => id)).toEqual(["test-chat"]);
  });

  it("ends after a rotation when the overlap ends (KEY-16)", async () => {
    const old = await newKey();
    expect(await statusOf(old.secret)).toBe(200);
    const next = await keys().rotate({ id: old.record.id, overlapMs: 1_000, expiresAtMs: null });
    const { oldExpiresAtMs } = next;
    const answered: { status: number; fromMs: number; toMs: number }[] = [];
    do {
      const fromMs = Date.now();
      answered.push({ status: await statusOf(old.secret), fromMs, toMs: Date.now() });
    } while (answered.at(-1)?.status === 200);
    // The service decided the answer at a time between `fromMs` and `toMs`.
    for (const { status, fromMs, toMs } of answered) {
      if (toMs < oldExpiresAtMs) expect(status).toBe(200);
      if (fromMs >= oldExpiresAtMs) expect(status).toBe(401);
    }
    expect(await statusOf(next.secret)).toBe(200);
  });

  it("includes a time of last use, which is stored to the minute (KEY-3, KEY-15)", async () => {
    const { record, secret } = await newKey();
    const beforeMs = Date.now();
    await statusOf(secret);
    await eventually(async () => (await keys().get(record.id)).lastUsedAtMs !== null, "the use is noted");
    expect(Math.abs(Number((await keys().get(record.id)).lastUsedAtMs) - beforeMs)).toBeLessThan(60_000);
  });
});
