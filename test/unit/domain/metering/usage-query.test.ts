import { describe, expect, it } from "vitest";
import { queryUsage, type UsageQuery } from "../../../../src/domain/metering/usage-queries.js";
import {
  UsageGrouping,
  type UsageGroupsQuery,
  type UsageRange,
  type UsageRow,
} from "../../../../src/domain/metering/usage-store.js";

const day = (text: string): number => Date.parse(`${text}T00:00:00Z`);
const nowMs = Date.parse("2026-03-10T12:30:00Z");
const hourMs = 3_600_000;

function row(
  startMs: number,
  model: string,
  keyId: string | null,
  requests: bigint,
  operation: string | null = "chat",
): UsageRow {
  const sums = { requests, promptTokens: requests * 10n, completionTokens: requests, cachedTokens: 0n, costNano: 1n };
  return { account: "a", startMs, model, keyId, operation, ...sums };
}

const rows = [
  row(day("2026-03-08"), "m1", "key_1", 1n),
  row(day("2026-03-08"), "m2", "key_1", 2n),
  row(day("2026-03-08"), "m1", "key_2", 4n),
  row(day("2026-03-10"), "m1", "key_1", 2n ** 60n),
];

const hours = [
  row(day("2026-03-08") + 10 * hourMs, "m1", "key_1", 1n),
  row(day("2026-03-08") + 11 * hourMs, "m1", "key_2", 4n),
  row(day("2026-03-08") + 15 * hourMs, "m2", "key_1", 2n),
];

async function ask(question: Partial<UsageQuery>, asked: UsageRange[] = []) {
  const usage = {
    async groups(query: UsageGroupsQuery) {
      asked.push(query);
      const grouping = new UsageGrouping(query);
      const kept = query.width === "hour" ? hours : rows;
      for (const row of kept) if (row.startMs >= query.fromMs && row.startMs < query.toMs) grouping.add(row);
      return grouping.rest();
    },
  };
  const all = { account: "a", startMs: null, endMs: null, width: "day", groupBy: [], limit: null, page: "" } as const;
  return await queryUsage({ usage, now: () => nowMs }, { ...all, ...question }, new AbortController().signal);
}

describe("queryUsage", () => {
  it("returns one bucket per day, also for days without usage; the last one ends now (USE-10)", async () => {
    const { buckets, next } = await ask({ startMs: day("2026-03-07") });
    expect(buckets.map(({ startMs }) => startMs)).toEqual(
      ["2026-03-07", "2026-03-08", "2026-03-09", "2026-03-10"].map(day),
    );
    expect(buckets.map(({ results }) => results.length)).toEqual([0, 1, 0, 1]);
    expect(buckets.at(-1)?.endMs).toBe(nowMs);
    expect(next).toBeNull();
  });

  it("sums over the dimensions that group_by does not name (USE-10)", async () => {
    const whole = await ask({ startMs: day("2026-03-08"), endMs: day("2026-03-09") });
    expect(whole.buckets[0]?.results).toMatchObject([{ requests: 7n, promptTokens: 70n, model: null, keyId: null }]);
    const byModel = await ask({ startMs: day("2026-03-08"), endMs: day("2026-03-09"), groupBy: ["model"] });
    expect(byModel.buckets[0]?.results).toMatchObject([
      { model: "m1", keyId: null, requests: 5n },
      { model: "m2", keyId: null, requests: 2n },
    ]);
    const byBoth = await ask({ startMs: day("2026-03-08"), endMs: day("2026-03-09"), groupBy: ["model", "key"] });
    expect(byBoth.buckets[0]?.results.map(({ model, keyId }) => [model, keyId])).toEqual([
      ["m1", "key_1"],
      ["m1", "key_2"],
      ["m2", "key_1"],
    ]);
  });

  it("counts nothing after the end of the last bucket, which is end_time rounded up to the hour", async () => {
    const endMs = day("2026-03-08") + 11.5 * hourMs;
    const { buckets, next } = await ask({ startMs: day("2026-03-07"), endMs });
    expect(buckets.map((bucket) => bucket.endMs)).toEqual([day("2026-03-08"), day("2026-03-08") + 12 * hourMs]);
    expect(buckets[1]?.results).toMatchObject([{ requests: 5n }]);
    expect(next).toBeNull();
    const byKey = await ask({ startMs: day("2026-03-08"), endMs, groupBy: ["key"] });
    expect(byKey.buckets[0]?.results).toMatchObject([
      { keyId: "key_1", requests: 1n },
      { keyId: "key_2", requests: 4n },
    ]);
    const hourly = await ask({ startMs: endMs - 2 * hourMs, endMs, width: "hour" });
    expect(hourly.buckets.at(-1)?.endMs).toBe(day("2026-03-08") + 12 * hourMs);
  });

  it("sums beyond 2^53 are exact (USE-9)", async () => {
    const { buckets } = await ask({ limit: 1 });
    expect(buckets[0]?.results[0]?.promptTokens).toBe(2n ** 60n * 10n);
  });

  it("pages through a long range without gaps, one page per read", async () => {
    const asked: UsageRange[] = [];
    const starts: number[] = [];
    let page = "";
    do {
      const answer = await ask({ startMs: day("2026-03-01"), limit: 4, page }, asked);
      starts.push(...answer.buckets.map(({ startMs }) => startMs));
      page = answer.next ?? "";
    } while (page !== "");
    expect(starts).toEqual(Array.from({ length: 10 }, (_, i) => day("2026-03-01") + i * 24 * hourMs));
    expect(asked.map(({ fromMs, toMs }) => (toMs - fromMs) / (24 * hourMs))).toEqual([4, 4, 2]);
  });

  it("rounds the start of a range down to its bucket, also for hours", async () => {
    const { buckets } = await ask({ startMs: nowMs - 90 * 60_000, width: "hour" });
    expect(buckets.map(({ startMs }) => new Date(startMs).toISOString())).toEqual([
      "2026-03-10T11:00:00.000Z",
      "2026-03-10T12:00:00.000Z",
    ]);
  });

  it.each([
    [{ limit: 0 }, "limit"],
    [{ limit: 32 }, "limit"],
    [{ limit: 169, width: "hour" }, "limit"],
    [{ startMs: 5, endMs: 5 }, "start_time"],
    [{ page: "page_1" }, "page"],
    [{ page: "elsewhere" }, "page"],
  ] as const)("rejects %j with the name of the field", async (question, param) => {
    await expect(ask(question)).rejects.toMatchObject({ code: "invalid_value", param });
  });
});
