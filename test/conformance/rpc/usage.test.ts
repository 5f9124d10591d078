import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Action, Metric, Period } from "../../../gen/unified/admin/v1/threshold_pb.js";
import { ThresholdService } from "../../../gen/unified/admin/v1/threshold_service_pb.js";
import { UsageGroup, UsageService } from "../../../gen/unified/admin/v1/usage_service_pb.js";
import { type RunningService, startService } from "../../support/start-service.js";

let service: RunningService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.close());

function transport(credential: string) {
  return createConnectTransport({
    baseUrl: service.http,
    httpVersion: "1.1",
    interceptors: [
      (next) => (request) => {
        request.header.set("authorization", `Bearer ${credential}`);
        return next(request);
      },
    ],
  });
}
const usageOf = (credential: string) => createClient(UsageService, transport(credential));
const thresholds = () => createClient(ThresholdService, transport(service.adminToken));

async function keyOf(account: string): Promise<{ id: string; secret: string }> {
  const { record, secret } = await service.service.parts.apiKeys.create({
    name: account,
    scope: "read_write",
    account,
  });
  return { id: record.id, secret };
}

async function chat(secret: string): Promise<{ status: number; code: string | null; shouldRetry: string | null }> {
  const response = await fetch(`${service.api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "test-chat", messages: [{ role: "user", content: "one two" }] }),
  });
  const body = (await response.json()) as { error?: { code: string } };
  return {
    status: response.status,
    code: body.error?.code ?? null,
    shouldRetry: response.headers.get("x-should-retry"),
  };
}

const codeOf = (error: unknown) => ConnectError.from(error).code;

describe("UsageService", () => {
  it("returns the usage of a key's own account, and to the administrator that of any account (USE-10, SEC-22)", async () => {
    const { id, secret } = await keyOf("asks");
    await chat(secret);
    const own = await usageOf(secret).queryUsage({ groupBy: [UsageGroup.KEY], pageSize: 1 });
    expect(own.buckets[0]?.results).toMatchObject([{ apiKeyId: id, requests: 1n }]);
    const asked = await usageOf(service.adminToken).queryUsage({ account: "asks", pageSize: 1 });
    expect(asked.buckets[0]?.results).toMatchObject([{ requests: 1n }]);
    const foreign = usageOf(secret).queryUsage({ account: "default" });
    const unknown = usageOf(secret).queryUsage({ account: "never-used" });
    const [first, second] = await Promise.all([foreign, unknown].map((each) => each.catch((error: unknown) => error)));
    expect(codeOf(first)).toBe(Code.NotFound);
    expect(String(first)).toBe(String(second));
  });

  it("sends the current day to a watch immediately and after each change (USE-10)", async () => {
    const { secret } = await keyOf("watched");
    const stop = new AbortController();
    const told: bigint[] = [];
    try {
      for await (const { bucket } of usageOf(secret).watchUsage({}, { signal: stop.signal })) {
        told.push(bucket?.results[0]?.requests ?? 0n);
        if (told.length === 1) await chat(secret);
        else stop.abort();
      }
    } catch (error) {
      expect(codeOf(error)).toBe(Code.Canceled);
    }
    expect(told).toEqual([0n, 1n]);
  });
});

describe("ThresholdService", () => {
  it("creates, lists, changes and deletes thresholds (USE-4)", async () => {
    const { threshold } = await thresholds().createThreshold({
      threshold: { account: "made", metric: Metric.TOKENS, period: Period.MONTH, limit: 1_000n },
    });
    expect(threshold).toMatchObject({
      account: "made",
      apiKeyId: "",
      percents: [50, 80, 100],
      action: Action.NOTIFY,
      used: 0n,
    });
    const id = threshold?.id ?? "";
    expect(id).toMatch(/^thr_[0-9A-Za-z]{24}$/);
    const changed = await thresholds().updateThreshold({ id, limit: 5n, percents: { values: [10, 100] } });
    expect(changed.threshold).toMatchObject({ limit: 5n, percents: [10, 100], action: Action.NOTIFY });
    expect((await thresholds().listThresholds({ account: "made" })).thresholds.map((each) => each.id)).toEqual([id]);
    await thresholds().deleteThreshold({ id });
    expect((await thresholds().listThresholds({ account: "made" })).thresholds).toEqual([]);
    const again = await thresholds()
      .deleteThreshold({ id })
      .catch((error: unknown) => error);
    expect(codeOf(again)).toBe(Code.NotFound);
  });

  it("creates budgets that reject further requests until their period ends, and that show their usage (ERR-21, USE-7)", async () => {
    const { id: apiKeyId, secret } = await keyOf("budget");
    const { threshold } = await thresholds().createThreshold({
      threshold: { apiKeyId, metric: Metric.REQUESTS, period: Period.DAY, limit: 2n, action: Action.REFUSE },
    });
    expect(threshold?.account).toBe("budget");
    expect([await chat(secret), await chat(secret)].map(({ status }) => status)).toEqual([200, 200]);
    expect(await chat(secret)).toEqual({ status: 429, code: "insufficient_quota", shouldRetry: "false" });
    const [listed] = (await thresholds().listThresholds({ account: "budget" })).thresholds;
    expect(listed?.used).toBe(2n);
    await thresholds().deleteThreshold({ id: threshold?.id ?? "" });
    expect((await chat(secret)).status).toBe(200);
  });

  it.each([
    ["metric", { metric: Metric.UNSPECIFIED }],
    ["period", { period: Period.UNSPECIFIED }],
    ["limit", { limit: 0n }],
    ["percents", { percents: [80, 50] }],
    ["percents", { percents: [101] }],
    ["account", { account: "No Account" }],
    ["api_key_id", { apiKeyId: "key_unknown" }],
  ])("rejects an invalid %s and names it", async (param, change) => {
    const threshold = { account: "made", metric: Metric.TOKENS, period: Period.DAY, limit: 1n, ...change };
    const error = await thresholds()
      .createThreshold({ threshold })
      .catch((thrown: unknown) => ConnectError.from(thrown));
    expect(error).toMatchObject({ code: Code.InvalidArgument });
    expect(String(error)).toContain(param);
  });

  it("requires the administrator", async () => {
    const error = await createClient(ThresholdService, transport(service.key))
      .listThresholds({})
      .catch((thrown: unknown) => thrown);
    expect(codeOf(error)).toBe(Code.PermissionDenied);
  });
});
