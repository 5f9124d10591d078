import { describe, expect, it } from "vitest";
import type { CopiedDelivery, CopiedEvent } from "../../../../../src/domain/service/state-copy.js";
import { deliveryEntries, eventEntries } from "../../../../../src/state/redis/copy/delivery-entries.js";
import type { Entry } from "../../../../../src/state/redis/copy/entry.js";

function delivery(id: string, changes: Partial<CopiedDelivery> = {}): CopiedDelivery {
  return {
    id,
    account: "a",
    eventId: "evt_1",
    eventType: "request.completed",
    endpointId: "we_1",
    isEndpointEnabled: true,
    state: "pending",
    reason: null,
    createdAtMs: 1_000,
    dueAtMs: 5_000,
    endedAtMs: null,
    attemptsMade: 0,
    retriesUsed: 0,
    isManual: false,
    by: "",
    isSingle: false,
    replayId: null,
    isPurged: false,
    attempts: [],
    body: "{}",
    sharers: 1,
    isFirstSharer: true,
    ...changes,
  };
}

/** Members and values of a key of the account's shard. */
const entriesIn = (all: Iterable<Entry>, name: string) =>
  [...all].filter(({ key }) => key === `uis:{s7}:${name}`).map(({ member, value }) => [member, String(value)]);

describe("deliveryEntries", () => {
  it("gives deliveries of the same millisecond different positions in the order of creation, even after the clock was set back", () => {
    const times = [1_000, 1_000, 1_001, 1_001, 900];
    const all = times.map((createdAtMs, n) => delivery(`dlv_${n}`, { createdAtMs }));
    const positions = entriesIn(deliveryEntries(all), "open:request.completed").map(([, at]) => Number(at));
    expect(positions).toEqual([1_000_000, 1_000_001, 1_001_000, 1_001_001, 900_000]);
  });

  it("queues open deliveries at their due times, and lets the next claim end deliveries to a disabled endpoint", () => {
    const all = [
      delivery("dlv_1", { dueAtMs: 7_000 }),
      delivery("dlv_2", { dueAtMs: 6_000 }),
      delivery("dlv_3", { endpointId: "we_off", isEndpointEnabled: false }),
      delivery("dlv_4", { state: "delivered", dueAtMs: null, endedAtMs: 8_000 }),
    ];
    const entries = [...deliveryEntries(all)];
    expect(entriesIn(entries, "q:a:we_1")).toEqual([
      ["dlv_1", "7000000"],
      ["dlv_2", "6000001"],
    ]);
    expect(entriesIn(entries, "turns")).toEqual([
      ["a:we_1", "6000001"],
      ["a:we_off", "0"],
    ]);
    expect(entriesIn(entries, "open_counts")).toEqual([["a", "3"]]);
    expect(entriesIn(entries, "kept:delivered")).toEqual([["dlv_4", "8000"]]);
  });

  it("stores a shared body once, and no body for purged deliveries", () => {
    const shared = { eventId: "evt_2", body: '"shared"', sharers: 2 };
    const ended = { state: "delivered", dueAtMs: null, endedAtMs: 8_000 } as const;
    const entries = [
      ...deliveryEntries([
        delivery("dlv_1"),
        delivery("dlv_2", { ...shared, isFirstSharer: true }),
        delivery("dlv_3", { ...shared, isFirstSharer: false, endpointId: "we_2" }),
        delivery("dlv_4", { ...ended, isPurged: true, body: "" }),
      ]),
    ];
    expect(entriesIn(entries, "bodies")).toEqual([
      ["dlv_1", "{}"],
      ["evt_2", '"shared"'],
    ]);
    expect(entriesIn(entries, "body_holders")).toEqual([["evt_2", "2"]]);
    expect(entriesIn(entries, "purged")).toEqual([["dlv_4", String(8_000 + 2 * 86_400_000)]]);
  });
});

describe("eventEntries", () => {
  it("keeps the order of waiting events, and lets each account wait for its turn from the time of its first event", () => {
    const event = (id: string, atMs: number): CopiedEvent => ({
      ...{ id, account: "a", type: "request.failed", atMs, endpointIds: ["we_1"], body: "{}" },
    });
    const entries = [...eventEntries([event("evt_1", 5), event("evt_2", 5)])];
    expect(entriesIn(entries, "waiting:a")).toEqual([
      ["evt_1", "5000"],
      ["evt_2", "5001"],
    ]);
    expect(entriesIn(entries, "event_turns")).toEqual([["a", "5000"]]);
  });
});
