import { describe, expect, it } from "vitest";
import { SharedWork } from "../../../src/model-store/puller.js";

const ignore = () => {};
const never = () => new AbortController().signal;

/** A task that rejects with the signal's reason when it is aborted. */
function untilAborted(_: unknown, signal: AbortSignal): Promise<string> {
  return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}

describe("SharedWork", () => {
  it("runs the task of a key once, and reports progress and result to every caller", async () => {
    const shared = new SharedWork<number, string>();
    let runs = 0;
    const work = async (report: (progress: number) => void) => {
      runs += 1;
      await Promise.resolve();
      report(7);
      return "done";
    };
    const heard: number[] = [];
    const listen = (progress: number) => heard.push(progress);
    expect(await Promise.all([shared.run("k", work, listen, never()), shared.run("k", work, listen, never())])).toEqual(
      ["done", "done"],
    );
    expect([runs, heard]).toEqual([1, [7, 7]]);
    await shared.run("k", work, ignore, never());
    expect(runs).toBe(2);
  });

  it("continues a task for the remaining callers, and aborts it after the last caller's abort", async () => {
    const shared = new SharedWork<never, string>();
    const [first, second] = [new AbortController(), new AbortController()];
    let isAborted = false;
    const work = (_: unknown, signal: AbortSignal) =>
      untilAborted(_, signal).finally(() => {
        isAborted = true;
      });
    const left = shared.run("k", work, ignore, first.signal);
    const stayed = shared.run("k", work, ignore, second.signal);
    first.abort(new Error("first"));
    await expect(left).rejects.toThrow("first");
    expect(isAborted).toBe(false);
    second.abort(new Error("second"));
    await expect(stayed).rejects.toThrow("second");
    expect(isAborted).toBe(true);
  });

  it("starts a new task for a call during the end of an aborted task, once that has ended", async () => {
    const shared = new SharedWork<never, string>();
    const leaving = new AbortController();
    const order: string[] = [];
    const ending = async (_: unknown, signal: AbortSignal) => {
      const outcome = untilAborted(_, signal);
      await outcome.catch(() => Promise.resolve());
      order.push("ended");
      return outcome;
    };
    const left = shared.run("k", ending, ignore, leaving.signal);
    leaving.abort(new Error("left"));
    const anew = shared.run("k", async () => `new ${order.push("anew")}`, ignore, never());
    await expect(left).rejects.toThrow("left");
    expect(await anew).toBe("new 2");
    expect(order).toEqual(["ended", "anew"]);
  });

  it("rejects every caller after a failure and does not cache it", async () => {
    const shared = new SharedWork<never, string>();
    const fail = () => Promise.reject(new Error("no"));
    const all = await Promise.allSettled([
      shared.run("k", fail, ignore, never()),
      shared.run("k", fail, ignore, never()),
    ]);
    expect(all.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await shared.run("k", async () => "yes", ignore, never())).toBe("yes");
  });

  it("rejects a caller whose signal has already aborted", async () => {
    const shared = new SharedWork<never, string>();
    await expect(shared.run("k", async () => "x", ignore, AbortSignal.abort(new Error("gone")))).rejects.toThrow(
      "gone",
    );
  });
});
