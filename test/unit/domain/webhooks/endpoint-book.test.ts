import { describe, expect, it } from "vitest";
import type { StateChange } from "../../../../src/domain/call/ports.js";
import { EndpointBook } from "../../../../src/domain/webhooks/endpoint-book.js";
import { type EndpointRecord, freshHealth } from "../../../../src/domain/webhooks/endpoint-store.js";
import { SecretBox } from "../../../../src/lib/crypto.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { endpoint } from "../../../support/records.js";
import { keptLog } from "./dispatch-fixture.js";

/** A book over a store that counts reads, and a change feed that the test controls. */
function openBook() {
  const clock = new FakeClock();
  const box = new SecretBox(Buffer.alloc(32, 1));
  const log = keptLog();
  const kept = new Map<string, EndpointRecord>();
  const listeners = new Set<(change: StateChange) => void>();
  const feed = { isLinked: true };
  let reads = 0;
  let beforeAnswer = async (): Promise<void> => {};
  const book = new EndpointBook({
    endpoints: {
      async find(account, id) {
        reads += 1;
        const record = kept.get(id);
        await beforeAnswer();
        return record === undefined || record.account !== account ? null : { record, health: freshHealth };
      },
    },
    changes: {
      isComplete: false,
      subscribe(listener) {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
      get isLinked() {
        return feed.isLinked;
      },
    },
    secrets: box,
    clock,
    log,
  });
  const put = (id: string, secrets: readonly [string, number | null][] = [["whsec_1", null]], url?: string): void => {
    const sealed = secrets.map(([secret, expiresAtMs]) => ({ sealed: box.seal(secret, id), hint: "", expiresAtMs }));
    kept.set(id, endpoint(id, { secrets: sealed, ...(url === undefined ? {} : { url }) }));
  };
  return {
    book,
    clock,
    log,
    feed,
    listeners,
    put,
    kept,
    reads: () => reads,
    tell: (change: StateChange) => {
      for (const listener of listeners) listener(change);
    },
    delayAnswers: (wait: () => Promise<void>) => {
      beforeAnswer = wait;
    },
  };
}

describe("EndpointBook", () => {
  it("reads an endpoint once for many attempts, also for simultaneous ones", async () => {
    const { book, put, reads } = openBook();
    put("we_a");
    await Promise.all(Array.from({ length: 20 }, () => book.find("a", "we_a")));
    expect((await book.find("a", "we_a"))?.secretsAt(0)).toEqual(["whsec_1"]);
    expect(reads()).toBe(1);
  });

  it("reads an endpoint again after a change, after a lost connection of the change feed, or after 30 s", async () => {
    const { book, put, reads, tell, clock } = openBook();
    put("we_a");
    await book.find("a", "we_a");
    put("we_a", [["whsec_2", null]]);
    tell({ kind: "endpoint", id: "we_a" });
    expect((await book.find("a", "we_a"))?.secretsAt(0)).toEqual(["whsec_2"]);
    tell({ kind: "endpoint", id: "we_b" });
    tell({ kind: "limits" });
    await book.find("a", "we_a");
    expect(reads()).toBe(2);
    tell({ kind: "lost_link" });
    await book.find("a", "we_a");
    expect(reads()).toBe(3);
    clock.advance(29_999);
    await book.find("a", "we_a");
    expect(reads()).toBe(3);
    clock.advance(1);
    await book.find("a", "we_a");
    expect(reads()).toBe(4);
  });

  it("caches nothing while the change feed is disconnected", async () => {
    const { book, put, reads, feed } = openBook();
    put("we_a");
    await book.find("a", "we_a");
    feed.isLinked = false;
    await book.find("a", "we_a");
    await book.find("a", "we_a");
    expect(reads()).toBe(3);
  });

  it("does not cache a read that overlaps a change", async () => {
    const { book, put, reads, tell, delayAnswers } = openBook();
    put("we_a", undefined, "https://old.example");
    let answer = (): void => {};
    delayAnswers(
      () =>
        new Promise((resolve) => {
          answer = resolve;
        }),
    );
    const first = book.find("a", "we_a");
    put("we_a", undefined, "https://new.example");
    tell({ kind: "endpoint", id: "we_a" });
    answer();
    await first;
    delayAnswers(async () => {});
    expect((await book.find("a", "we_a"))?.record.url).toBe("https://new.example");
    expect(reads()).toBe(2);
  });

  it("returns an endpoint only to its own account, read or cached (SEC-22)", async () => {
    const { book, put } = openBook();
    put("we_a");
    const both = await Promise.all([book.find("other", "we_a"), book.find("a", "we_a")]);
    expect(both.map((receiver) => receiver?.record.id)).toEqual([undefined, "we_a"]);
    expect(await book.find("other", "we_a")).toBeNull();
  });

  it("caches no unknown endpoints, and at least the last 500 and at most 1,000 known ones", async () => {
    const { book, put, reads } = openBook();
    expect(await book.find("a", "we_a")).toBeNull();
    put("we_a");
    expect(await book.find("a", "we_a")).not.toBeNull();
    for (let i = 0; i < 3_000; i++) {
      put(`we_${i}`);
      await book.find("a", `we_${i}`);
    }
    expect(book.size).toBeLessThanOrEqual(1_000);
    const before = reads();
    for (let i = 2_500; i < 3_000; i++) await book.find("a", `we_${i}`);
    expect(reads()).toBe(before);
  });

  it("returns the secrets that have not expired; the newest comes first and does not expire (WH-7, WH-16)", async () => {
    const { book, put } = openBook();
    put("we_a", [
      ["whsec_new", null],
      ["whsec_old", 2_000],
      ["whsec_older", 1_000],
    ]);
    const receiver = await book.find("a", "we_a");
    expect(receiver?.secretsAt(999)).toEqual(["whsec_new", "whsec_old", "whsec_older"]);
    expect(receiver?.secretsAt(1_000)).toEqual(["whsec_new", "whsec_old"]);
    expect(receiver?.secretsAt(2_000)).toEqual(["whsec_new"]);
  });

  it("logs that a secret cannot be decrypted, and skips it if it is not the newest", async () => {
    const { book, kept, log } = openBook();
    const box = new SecretBox(Buffer.alloc(32, 1));
    const another = new SecretBox(Buffer.alloc(32, 2));
    const of = (...sealed: string[]) =>
      endpoint("we_a", { secrets: sealed.map((one, i) => ({ sealed: one, hint: "", expiresAtMs: i ? 1e15 : null })) });
    kept.set("we_a", of(box.seal("whsec_new", "we_a"), another.seal("whsec_old", "we_a")));
    expect((await book.find("a", "we_a"))?.secretsAt(0)).toEqual(["whsec_new"]);
    kept.set("we_b", { ...of(another.seal("whsec_new", "we_b"), box.seal("whsec_old", "we_b")), id: "we_b" });
    expect((await book.find("a", "we_b"))?.secretsAt(0)).toBeNull();
    expect(log.lines).toMatchObject([
      { level: "error", fields: { endpoint: "we_a" } },
      { level: "error", fields: { endpoint: "we_b" } },
    ]);
    expect(JSON.stringify(log.lines)).not.toContain("whsec_");
  });

  it("unsubscribes from the feed when it is closed", () => {
    const { book, listeners } = openBook();
    expect(listeners.size).toBe(1);
    book.close();
    expect(listeners.size).toBe(0);
  });
});
