import { describe, expect, it } from "vitest";
import type { RequestFilter, RequestLogStore, RequestRecord } from "../../src/domain/request-log/request-log-store.js";
import { requestLogEntry as entry, requestRecord } from "../support/records.js";
import { eachTest, type OpenState } from "./state-harness.js";

const anyRequest: RequestFilter = { model: null, keyId: null, account: null, code: null, fromMs: null, toMs: null };
const keep = 100;

/** Ids of all pages. */
async function idsOf(store: RequestLogStore, filter: Partial<RequestFilter>, limit = 2): Promise<string[]> {
  const ids: string[] = [];
  for (let after: string | null = null, pages = 0; pages < 100; pages += 1) {
    const { records, next } = await store.list({ filter: { ...anyRequest, ...filter }, limit, after });
    expect(records.length).toBeLessThanOrEqual(limit);
    ids.push(...records.map(({ id }) => id));
    if (next === null) return ids;
    after = next;
  }
  throw new Error("the pages do not end");
}

const ids = (records: readonly RequestRecord[]) => records.map(({ id }) => id);
const idsFor = (...numbers: readonly number[]) => ids(numbers.map((number) => requestRecord(number)));

export function describeRequestLogStore(open: OpenState): void {
  describe("RequestLogStore", () => {
    const harness = eachTest(open);

    it("returns metadata and content of a request by its id, and lists the metadata", async () => {
      const { requestLogs } = harness.state;
      const record = requestRecord(1, {
        keyId: null,
        model: "org/näme 'x' \"y\"",
        fallbackModel: "other model",
        code: "upstream_error",
        isStream: true,
        firstTokenMs: 12.5,
        costNano: 2 ** 52,
        tries: [
          { deployment: "a/b c", model: "m", beganMs: 0.5, durationMs: 1.25, code: "upstream_timeout" },
          { deployment: "b/c", model: "other model", beganMs: 2, durationMs: 9, code: "upstream_error" },
        ],
        clientRequestId: "its own",
        traceId: "0123456789abcdef0123456789abcdef",
        labels: { user: "u\n'", metadata: { "a b": "c|d" } },
      });
      const content = { request: '{"a":"ß\\u0000"}', answers: ["", "text\r\n"], errorMessage: "failed", isCut: true };
      await requestLogs.append([{ record, content }, entry(2)], keep);
      expect(await requestLogs.get(record.id)).toEqual({ record, content });
      expect(await requestLogs.get(requestRecord(2).id)).toEqual(entry(2));
      expect(await requestLogs.get(requestRecord(3).id)).toBeNull();
      const page = await requestLogs.list({ filter: { ...anyRequest, code: "error" }, limit: 10, after: null });
      expect(page).toEqual({ records: [record], next: null });
    });

    it("lists the newest arrival first, also in pages and for arrivals of the same millisecond", async () => {
      const { requestLogs } = harness.state;
      const entries = [3, 1, 2, 5, 4].map((number) => entry(number, { receivedAtMs: 1_000 + (number >> 1) }));
      await requestLogs.append(entries.slice(0, 2), keep);
      await requestLogs.append(entries.slice(2), keep);
      for (const limit of [1, 2, 5, 10]) expect(await idsOf(requestLogs, {}, limit)).toEqual(idsFor(5, 4, 3, 2, 1));
    });

    it("filters by model, key, account, code and arrival, individually and combined", async () => {
      const { requestLogs } = harness.state;
      await requestLogs.append(
        [
          entry(1, { model: "other", receivedAtMs: 1_000 }),
          entry(2, { keyId: null, receivedAtMs: 2_000 }),
          entry(3, { account: "b", code: "rate_limit_exceeded", receivedAtMs: 3_000 }),
          entry(4, { model: null, code: "model_not_found", receivedAtMs: 4_000 }),
        ],
        keep,
      );
      const cases: [Partial<RequestFilter>, number[]][] = [
        [{ model: "m" }, [3, 2]],
        [{ model: "M" }, []],
        [{ keyId: "key_1" }, [4, 3, 1]],
        [{ account: "b" }, [3]],
        [{ code: "ok" }, [2, 1]],
        [{ code: "model_not_found" }, [4]],
        [{ code: "error" }, [4, 3]],
        [{ fromMs: 2_000 }, [4, 3, 2]],
        [{ toMs: 2_000 }, [1]],
        [{ fromMs: 2_000, toMs: 4_000 }, [3, 2]],
        [{ account: "a", code: "ok", model: "m", fromMs: 1_500 }, [2]],
      ];
      for (const [filter, expected] of cases) {
        expect(await idsOf(requestLogs, filter), JSON.stringify(filter)).toEqual(idsFor(...expected));
      }
    });

    it("keeps the newest records, and removes the oldest in steps when the maximum is reduced", async () => {
      const { requestLogs } = harness.state;
      for (const number of [1, 2, 3, 4, 5, 6]) await requestLogs.append([entry(number)], 5);
      await requestLogs.append([entry(6, { model: "changed" })], 5);
      expect(await idsOf(requestLogs, {})).toEqual(idsFor(6, 5, 4, 3, 2));
      expect(await requestLogs.get(requestRecord(1).id)).toBeNull();
      expect(await requestLogs.get(requestRecord(6).id)).toEqual(entry(6));
      const steps = [];
      for (const bound of [5, 2, 2, 2, 0, 0]) steps.push(await requestLogs.trim(bound, 2));
      expect(steps).toEqual([0, 2, 1, 0, 2, 0]);
      expect(await idsOf(requestLogs, {})).toEqual([]);
    });

    it("returns the records that were appended after a number, in the order of the appends, for followers of the log", async () => {
      const { requestLogs } = harness.state;
      expect(await requestLogs.newest()).toBe(0);
      await requestLogs.append([entry(7)], keep);
      const before = await requestLogs.newest();
      await requestLogs.append([entry(3), entry(9)], keep);
      await requestLogs.append([entry(1)], keep);
      const first = await requestLogs.appendedAfter(before, 2);
      expect(ids(first.records)).toEqual(idsFor(3, 9));
      const second = await requestLogs.appendedAfter(first.last, 2);
      expect(ids(second.records)).toEqual(idsFor(1));
      expect(await requestLogs.newest()).toBe(second.last);
      expect(await requestLogs.appendedAfter(second.last, 2)).toEqual({ records: [], last: second.last });
    });
  });
}
