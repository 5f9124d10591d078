import { beforeEach, describe, expect, it } from "vitest";
import { periodAt } from "../../src/domain/events/events.js";
import type { Settlement } from "../../src/domain/metering/ledger.js";
import type {
  GroupedUsage,
  UsageCursor,
  UsageGroup,
  UsageGroups,
  UsageRow,
} from "../../src/domain/metering/usage-store.js";
import { settlement } from "../support/records.js";
import { keyRecord } from "./api-key-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** The usage that one call of `settlement` describes. */
const once = { requests: 1n, promptTokens: 10n, completionTokens: 5n, cachedTokens: 0n, costNano: 0n };

const times = (count: number) => ({
  requests: BigInt(count),
  promptTokens: BigInt(10 * count),
  completionTokens: BigInt(5 * count),
  cachedTokens: 0n,
  costNano: 0n,
});

/** Sums of settlements, and queries of them. */
export function describeUsage(open: OpenState): void {
  describe("Usage", () => {
    const harness = eachTest(open);
    let count = 0;
    /** Start of a past day (UTC). */
    let day = 0;
    beforeEach(() => {
      count = 0;
      day = periodAt("day", harness.state.now() - 3 * dayMs).startMs;
    });

    const settle = async (changes: Partial<Settlement> = {}): Promise<void> => {
      count += 1;
      await harness.state.ledger.settle(settlement(`req_${count}`, changes));
    };
    const rows = (
      width: "hour" | "day",
      account = "a",
      fromMs = day,
      toMs = day + dayMs,
    ): Promise<readonly UsageRow[]> => harness.state.usage.rows({ account, width, fromMs, toMs });

    it("sums requests by hour and day, key and model (USE-10)", async () => {
      await settle({ endedAtMs: day, promptTokens: 100, completionTokens: 1, cachedTokens: 60, costNano: 7 });
      await settle({
        endedAtMs: day + hourMs - 1,
        promptTokens: 11,
        completionTokens: 22,
        cachedTokens: 3,
        costNano: 8,
      });
      await settle({ endedAtMs: day + hourMs });
      await settle({ endedAtMs: day, model: "n" });
      await settle({ endedAtMs: day, keyId: "key_2" });
      await settle({ endedAtMs: day, keyId: null });
      const both = { requests: 2n, promptTokens: 111n, completionTokens: 23n, cachedTokens: 63n, costNano: 15n };
      const row = { account: "a", startMs: day, keyId: "key_1", model: "m", operation: "chat" };
      expect(await rows("hour")).toEqual([
        { ...row, keyId: null, ...once },
        { ...row, ...both },
        { ...row, model: "n", ...once },
        { ...row, keyId: "key_2", ...once },
        { ...row, startMs: day + hourMs, ...once },
      ]);
      const all = { requests: 3n, promptTokens: 121n, completionTokens: 28n, cachedTokens: 63n, costNano: 15n };
      expect(await rows("day")).toEqual([
        { ...row, keyId: null, ...once },
        { ...row, ...all },
        { ...row, model: "n", ...once },
        { ...row, keyId: "key_2", ...once },
      ]);
    });

    it("sums each operation of a key and model separately, and includes it in the sums without operation (USE-10)", async () => {
      await settle({ endedAtMs: day });
      await settle({ endedAtMs: day, operation: "create_completion" });
      await settle({ endedAtMs: day + 1, operation: "create_completion" });
      await settle({ endedAtMs: day, operation: "create_embeddings", model: "n" });
      await settle({ endedAtMs: day, operation: "rerank", model: "n", keyId: null });
      const row = { account: "a", startMs: day, keyId: "key_1", model: "m" };
      const expected = [
        { ...row, keyId: null, model: "n", operation: "rerank", ...times(1) },
        { ...row, operation: "chat", ...times(1) },
        { ...row, operation: "completions", ...times(2) },
        { ...row, model: "n", operation: "embeddings", ...times(1) },
      ];
      expect(await rows("hour")).toEqual(expected);
      expect(await rows("day")).toEqual(expected);
      const range = { account: "a", width: "day", fromMs: day, toMs: day + dayMs, groupsMax: 10, after: null } as const;
      const by = async (...groupBy: UsageGroup[]) => {
        const { groups } = await harness.state.usage.groups({ ...range, groupBy }, new AbortController().signal);
        return groups.map(({ model, operation, requests }) => [model, operation, Number(requests)]);
      };
      expect((await by("operation")).sort()).toEqual([
        [null, "chat", 1],
        [null, "completions", 2],
        [null, "embeddings", 1],
        [null, "rerank", 1],
      ]);
      expect((await by("model", "operation")).sort()).toEqual([
        ["m", "chat", 1],
        ["m", "completions", 2],
        ["n", "embeddings", 1],
        ["n", "rerank", 1],
      ]);
      expect(await by()).toEqual([[null, null, 5]]);
      const { usage } = harness.state;
      expect(await usage.used("a", { kind: "account", id: "a" }, periodAt("day", day))).toEqual(times(5));
    });

    it("keeps the operations of a key and model on one page", async () => {
      for (const keyId of ["key_1", "key_2"]) {
        for (const operation of ["create_chat_completion", "create_completion"] as const) {
          await settle({ endedAtMs: day, keyId, operation });
        }
      }
      const range = { account: "a", width: "day", fromMs: day, toMs: day + dayMs, groupsMax: 1 } as const;
      for (const groupBy of [
        ["key", "operation"],
        ["key", "model", "operation"],
      ] as const) {
        const found: unknown[] = [];
        let after: UsageCursor | null = null;
        do {
          const page: UsageGroups = await harness.state.usage.groups(
            { ...range, groupBy, after },
            new AbortController().signal,
          );
          found.push(page.groups.map(({ keyId, operation }) => [keyId, operation]));
          after = page.next;
        } while (after !== null);
        const of = (keyId: string) => [
          [keyId, "chat"],
          [keyId, "completions"],
        ];
        expect(found).toEqual([of("key_1"), of("key_2")]);
      }
    });

    it("sums by bucket and group, and pages through groups without gaps or repeats (E-10)", async () => {
      const names = ["key_1", "key_2", "key_3", null].flatMap((keyId) => ["m", "n"].map((model) => ({ keyId, model })));
      for (const startMs of [day, day + hourMs]) {
        for (const name of names) await settle({ ...name, endedAtMs: startMs });
      }
      const range = { account: "a", width: "hour", fromMs: day, toMs: day + dayMs } as const;
      const all = async (groupBy: readonly UsageGroup[], groupsMax: number) => {
        const pages: (readonly GroupedUsage[])[] = [];
        let after: UsageCursor | null = null;
        do {
          const page: UsageGroups = await harness.state.usage.groups(
            { ...range, groupBy, groupsMax, after },
            new AbortController().signal,
          );
          pages.push(page.groups);
          after = page.next;
        } while (after !== null);
        return pages;
      };
      const none = { keyId: null, model: null, operation: null };
      expect((await all([], 10)).flat()).toEqual([
        { startMs: day, ...none, ...times(8) },
        { startMs: day + hourMs, ...none, ...times(8) },
      ]);
      expect((await all(["model"], 10)).flat()).toMatchObject(
        [day, day + hourMs].flatMap((startMs) => ["m", "n"].map((model) => ({ startMs, model, ...times(4) }))),
      );
      for (const groupBy of [["key"], ["key", "model"]] as const) {
        const whole = (await all(groupBy, 100)).flat();
        expect(whole).toHaveLength(groupBy.length === 1 ? 8 : 16);
        const pages = await all(groupBy, 3);
        expect(pages.every((page) => page.length <= 3)).toBe(true);
        expect(pages.flat()).toEqual(whole);
      }
      expect((await all(["model"], 1)).map((page) => page.length).filter((count) => count > 0)).toEqual([2, 2]);
    });

    it("returns the rows of one account that start in the range", async () => {
      for (const startMs of [day - hourMs, day, day + hourMs]) await settle({ endedAtMs: startMs + 5 });
      await settle({ endedAtMs: day, account: "b" });
      const startsOf = (found: readonly UsageRow[]) => found.map(({ startMs }) => startMs);
      expect(startsOf(await rows("hour", "a", day, day + hourMs))).toEqual([day]);
      expect(startsOf(await rows("hour", "a", day - hourMs, day + 2 * hourMs))).toEqual([
        day - hourMs,
        day,
        day + hourMs,
      ]);
      expect(startsOf(await rows("day", "a", day - dayMs, day))).toEqual([day - dayMs]);
      expect(await rows("hour", "b")).toEqual([
        { account: "b", startMs: day, keyId: "key_1", model: "m", operation: "chat", ...once },
      ]);
      expect(await rows("day", "nobody")).toEqual([]);
    });

    it("a request counts when it ends, by the store's time unless the end time is given (USE-6)", async () => {
      const hour = Math.floor(harness.state.now() / hourMs) * hourMs;
      await settle();
      const found = await rows("hour", "a", hour, hour + 2 * hourMs);
      expect(found).toHaveLength(1);
      expect(found[0]).toMatchObject(once);
      await harness.advance(2 * hourMs);
      await settle();
      expect(await rows("hour", "a", hour, hour + 4 * hourMs)).toHaveLength(2);
    });

    it("sums a day and a month of the account and of each key (USE-6)", async () => {
      const month = periodAt("month", harness.state.now() - 70 * dayMs);
      await settle({ endedAtMs: month.startMs });
      await settle({ endedAtMs: month.endMs - 1, keyId: "key_2" });
      await settle({ endedAtMs: month.endMs });
      await settle({ endedAtMs: month.startMs, keyId: null });
      await settle({ endedAtMs: month.startMs, account: "b", keyId: "key_b" });
      const { usage } = harness.state;
      const account = { kind: "account", id: "a" } as const;
      expect(await usage.used("a", account, month)).toMatchObject({ requests: 3n, promptTokens: 30n });
      expect(await usage.used("a", account, periodAt("day", month.startMs))).toMatchObject({ requests: 2n });
      expect(await usage.used("a", { kind: "key", id: "key_1" }, month)).toMatchObject({ requests: 1n });
      expect(await usage.used("a", { kind: "key", id: "key_2" }, periodAt("day", month.endMs - 1))).toEqual(once);
      expect(await usage.used("a", account, periodAt("day", month.startMs + 5 * dayMs))).toMatchObject({
        requests: 0n,
      });
    });

    it("sums beyond 2^53 are exact to the unit (USE-9)", async () => {
      const most = Number.MAX_SAFE_INTEGER;
      const times = 6;
      for (let i = 0; i < times; i++) {
        await settle({
          endedAtMs: day,
          promptTokens: most,
          completionTokens: most,
          cachedTokens: most,
          costNano: most,
        });
      }
      await settle({ endedAtMs: day, promptTokens: 1, completionTokens: 0, cachedTokens: 0, costNano: 2 });
      const sum = BigInt(times) * BigInt(most);
      const expected = {
        requests: 7n,
        promptTokens: sum + 1n,
        completionTokens: sum,
        cachedTokens: sum,
        costNano: sum + 2n,
      };
      expect(await rows("hour")).toMatchObject([expected]);
      expect(await rows("day")).toMatchObject([expected]);
      const { usage } = harness.state;
      expect(await usage.used("a", { kind: "account", id: "a" }, periodAt("day", day))).toEqual(expected);
    });

    it("a request that ended before it started counts as one request without tokens (USE-1)", async () => {
      await settle({ endedAtMs: day, why: "failed", error: "internal_error", promptTokens: 0, completionTokens: 0 });
      expect(await rows("day")).toMatchObject([{ requests: 1n, promptTokens: 0n, completionTokens: 0n }]);
    });

    it("sums simultaneous settlements (USE-1)", async () => {
      await Promise.all(Array.from({ length: 100 }, () => settle({ endedAtMs: day })));
      expect(await rows("hour")).toMatchObject([{ requests: 100n, promptTokens: 1_000n, completionTokens: 500n }]);
    });

    it("lists accounts with usage or keys, in order", async () => {
      await settle({ account: "c" });
      await harness.state.keys.insert(keyRecord(1, { account: "b" }));
      await settle({ account: "a" });
      await settle({ account: "b" });
      expect(await harness.state.usage.accounts()).toEqual(["a", "b", "c"]);
    });

    it("keeps hourly rows for 90 days and daily rows for two years (USE-15)", async () => {
      day = periodAt("day", harness.state.now()).startMs;
      await settle({ endedAtMs: day });
      await harness.advance(89 * dayMs);
      await harness.state.purge(1_000);
      expect([(await rows("hour")).length, (await rows("day")).length]).toEqual([1, 1]);
      await harness.advance(3 * dayMs);
      await harness.state.purge(1_000);
      expect([(await rows("hour")).length, (await rows("day")).length]).toEqual([0, 1]);
      await harness.advance(630 * dayMs);
      await harness.state.purge(1_000);
      expect((await rows("day")).length).toBe(1);
      await harness.advance(20 * dayMs);
      await harness.state.purge(1_000);
      expect((await rows("day")).length).toBe(0);
    });
  });
}
