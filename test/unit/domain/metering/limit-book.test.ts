import { describe, expect, it } from "vitest";
import { administrator, keyHolder, limitsOf, noDefaults, openBook } from "./limits-fixture.js";

const account = (id: string, limits: ReturnType<typeof limitsOf>) => ({
  owner: { kind: "account", id } as const,
  limits,
  updatedAtMs: 0,
});

describe("the limits of a call", () => {
  it("are the same empty list for every call when nothing is limited", () => {
    const { book } = openBook();
    expect(book.scopesOf(keyHolder(), "m")).toEqual([]);
    expect(book.scopesOf(keyHolder(), "m")).toBe(book.scopesOf(administrator, "other"));
  });

  it("are the limits of its key, account and model; stored limits take precedence over configured ones (state RL-1)", async () => {
    const { book, store } = openBook({
      key: limitsOf({ requestsPerMinute: 10, tokensPerMinute: 100 }),
      account: limitsOf({ concurrency: 5 }),
      models: new Map([["m", limitsOf({ tokensPerMinute: 7 })]]),
    });
    store.stored = [
      account("a", limitsOf({ requestsPerMinute: 20 })),
      { owner: { kind: "model", id: "n" }, limits: limitsOf({ concurrency: 1 }), updatedAtMs: 0 },
    ];
    await book.refresh();
    const caller = keyHolder(limitsOf({ requestsPerMinute: 3 }));
    const ofKey = {
      owner: { kind: "key", id: "key_1" },
      limits: { requestsPerMinute: 3, tokensPerMinute: 100, concurrency: null },
    };
    const ofAccount = {
      owner: { kind: "account", id: "a" },
      limits: { requestsPerMinute: 20, tokensPerMinute: null, concurrency: 5 },
    };
    expect(book.scopesOf(caller, "m")).toEqual([
      ofKey,
      ofAccount,
      { owner: { kind: "model", id: "m" }, limits: limitsOf({ tokensPerMinute: 7 }) },
    ]);
    expect(book.scopesOf(caller, "n")[2]?.limits).toEqual(limitsOf({ concurrency: 1 }));
    expect(book.scopesOf(caller, "third")).toEqual([ofKey, ofAccount]);
    expect(book.scopesOf(caller, null)).toEqual([ofKey, ofAccount]);
    expect(book.scopesOf(caller, "m")).toBe(book.scopesOf(caller, "m"));
  });

  it("are only the limits of the account for an administrator", async () => {
    const { book, store } = openBook({ ...noDefaults, key: limitsOf({ requestsPerMinute: 1 }) });
    expect(book.scopesOf(administrator, "m")).toEqual([]);
    store.stored = [account("default", limitsOf({ concurrency: 2 }))];
    await book.refresh();
    expect(book.scopesOf(administrator, "m")).toEqual([
      { owner: { kind: "account", id: "default" }, limits: limitsOf({ concurrency: 2 }) },
    ]);
  });

  it("apply a change from the change feed immediately, and a change whose message was lost within 30 s (state RL-15)", async () => {
    const { book, store, clock } = openBook();
    const caller = keyHolder();
    const limitNow = () => book.scopesOf(caller, "m")[0]?.limits.requestsPerMinute;
    await book.refresh();
    store.stored = [account("a", limitsOf({ requestsPerMinute: 1 }))];
    store.tell({ kind: "limits" });
    await book.refresh();
    expect(limitNow()).toBe(1);
    store.stored = [account("a", limitsOf({ requestsPerMinute: 2 }))];
    const { reads } = store;
    clock.advance(29_999);
    expect(store.reads).toBe(reads);
    clock.advance(1);
    expect(store.reads).toBe(reads + 1);
    await book.refresh();
    expect(limitNow()).toBe(2);
    store.stored = [];
    store.tell({ kind: "lost_link" });
    await book.refresh();
    expect(limitNow()).toBeUndefined();
  });

  it("keep their last known values during an outage of the store", async () => {
    const { book, store } = openBook();
    store.stored = [account("a", limitsOf({ requestsPerMinute: 1 }))];
    await book.refresh();
    store.away = true;
    store.stored = [];
    await book.refresh();
    expect(book.scopesOf(keyHolder(), "m")).toHaveLength(1);
    store.away = false;
    await book.refresh();
    expect(book.scopesOf(keyHolder(), "m")).toHaveLength(0);
  });

  it("use a changed configuration from the next call on (state RL-15)", () => {
    const { book } = openBook();
    const caller = keyHolder();
    expect(book.scopesOf(caller, "m")).toEqual([]);
    book.setDefaults({ ...noDefaults, key: limitsOf({ concurrency: 1 }) });
    expect(book.scopesOf(caller, "m")).toHaveLength(1);
    book.setDefaults(noDefaults);
    expect(book.scopesOf(caller, "m")).toEqual([]);
  });

  it("are no longer refreshed once the book is closed", async () => {
    const { book, store, clock } = openBook();
    await book.refresh();
    book.close();
    const { reads } = store;
    store.tell({ kind: "limits" });
    clock.advance(60_000);
    expect(store.reads).toBe(reads);
    expect(clock.pending).toBe(0);
  });
});
