import { describe, expect, it } from "vitest";
import { AbortSource } from "../../../src/lib/abort-source.js";
import { FairShare, FairShareFull } from "../../../src/lib/fair-share.js";

const never = new AbortSource();

/** Acquires units for several accounts; `order` lists the accounts in the order in which they got a unit. */
function start(limits: { capacity: number; accountMax?: number; contendedMax?: number; waitingMax?: number }) {
  const { capacity } = limits;
  const share = new FairShare({ accountMax: capacity, contendedMax: capacity, waitingMax: 100, ...limits });
  const order: string[] = [];
  const releases: (() => void)[] = [];
  const acquire = (account: string, signal = never): Promise<void> =>
    share.acquire(account, signal).then((release) => {
      order.push(account);
      releases.push(release);
    });
  /** Releases the unit that has been held longest. */
  const release = async (): Promise<void> => {
    releases.shift()?.();
    await Promise.resolve();
    await Promise.resolve();
  };
  return { share, order, acquire, release };
}

describe("FairShare", () => {
  it("grants units up to its capacity without waiting, and then one unit for each released one", async () => {
    const { share, order, acquire, release } = start({ capacity: 2 });
    await Promise.all([acquire("a"), acquire("b")]);
    void acquire("c");
    expect([share.held, share.waiting]).toEqual([2, 1]);
    await release();
    expect(order).toEqual(["a", "b", "c"]);
    expect([share.held, share.waiting]).toEqual([2, 0]);
  });

  it("grants free units to the waiting accounts in turn, however many entries one has", async () => {
    const { order, acquire, release } = start({ capacity: 1 });
    await acquire("heavy");
    for (const account of ["heavy", "heavy", "heavy", "light", "other"]) void acquire(account);
    for (let released = 0; released < 5; released++) await release();
    expect(order).toEqual(["heavy", "heavy", "light", "other", "heavy", "heavy"]);
  });

  it("limits an account to its maximum, so that units remain free for other accounts", async () => {
    const { share, order, acquire } = start({ capacity: 4, accountMax: 3 });
    for (let entry = 0; entry < 10; entry++) void acquire("heavy");
    await acquire("light");
    expect(order).toEqual(["heavy", "heavy", "heavy", "light"]);
    expect(share.roomOf("other")).toBe(0);
  });

  it("grants no more units to an account that holds its share while others wait", async () => {
    const { order, acquire, release } = start({ capacity: 4, contendedMax: 2 });
    for (let entry = 0; entry < 8; entry++) void acquire("heavy");
    await Promise.resolve();
    for (let entry = 0; entry < 3; entry++) void acquire("light");
    await release();
    await release();
    expect(order.slice(4)).toEqual(["light", "light"]);
    await release();
    expect(order.slice(6)).toEqual(["heavy"]);
  });

  it("rejects an aborted wait with the signal's reason, after which the others may hold more again", async () => {
    const { share, order, acquire } = start({ capacity: 2, accountMax: 2, contendedMax: 1 });
    const aborted = new AbortSource();
    await Promise.all([acquire("a"), acquire("b")]);
    const waits = acquire("c", aborted);
    void acquire("a");
    expect(share.waiting).toBe(2);
    aborted.abort(new Error("the client disconnected"));
    await expect(waits).rejects.toThrow("the client disconnected");
    expect(share.waiting).toBe(1);
    expect(order).toEqual(["a", "b"]);
    await expect(acquire("a", aborted)).rejects.toThrow("the client disconnected");
  });

  it("rejects an entry of the account with the most entries when a full queue gets one of another account", async () => {
    const { share, acquire } = start({ capacity: 1, waitingMax: 3 });
    await acquire("heavy");
    const waits = [acquire("heavy"), acquire("heavy"), acquire("heavy")];
    for (const wait of waits) wait.catch(() => {});
    await expect(acquire("heavy")).rejects.toBeInstanceOf(FairShareFull);
    void acquire("light");
    await expect(waits[2]).rejects.toBeInstanceOf(FairShareFull);
    expect(share.waiting).toBe(3);
  });

  it("takes several units without waiting, all or none", () => {
    const { share } = start({ capacity: 10, accountMax: 6 });
    expect(share.tryTake("a", 5)).toBe(true);
    expect(share.tryTake("a", 2)).toBe(false);
    expect(share.tryTake("b", 5)).toBe(true);
    expect([share.held, share.roomOf("a")]).toEqual([10, 0]);
    share.release("a", 5);
    share.release("b", 5);
    expect([share.held, share.roomOf("a")]).toEqual([0, 6]);
  });

  it("takes no units for an account whose entries wait, because waiting entries come first", async () => {
    const { share, acquire } = start({ capacity: 2, accountMax: 1 });
    await acquire("a");
    void acquire("a");
    expect([share.tryTake("a"), share.tryTake("b")]).toEqual([false, true]);
  });

  it("releases the unit of a task when the task ends or fails", async () => {
    const { share } = start({ capacity: 1 });
    await expect(share.run("a", never, () => 7)).resolves.toBe(7);
    await expect(share.run("a", never, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(share.held).toBe(0);
  });

  it("releases a unit only once, even if release is called several times", async () => {
    const { share } = start({ capacity: 2 });
    const [first] = await Promise.all([share.acquire("a", never), share.acquire("a", never)]);
    first();
    first();
    expect(share.held).toBe(1);
  });

  it("applies changed limits to waiting entries", async () => {
    const limits = { capacity: 1, accountMax: 1, contendedMax: 1, waitingMax: 10 };
    const share = new FairShare(limits);
    const first = await share.acquire("a", never);
    const second = share.acquire("a", never);
    limits.capacity = 3;
    limits.accountMax = 3;
    limits.contendedMax = 3;
    first();
    await second;
    expect(share.roomOf("a")).toBe(2);
  });
});
