import { describe, expect, it } from "vitest";
import type { EndReason } from "../../../../src/domain/call/call-context.js";
import { type LiveRequest, LiveRequests, type Stage } from "../../../../src/domain/call/live-requests.js";
import { keyHolder } from "../metering/limits-fixture.js";

function call(id: string, keyId: string, stage: Stage, ends: string[]): LiveRequest {
  return {
    requestId: id,
    principal: { ...keyHolder(), keyId },
    receivedAtMs: 0,
    stage,
    model: null,
    fallbackModel: null,
    usedSoFar: null,
    place: -1,
    abort: (why: EndReason) => void ends.push(`${id}:${why}`),
  };
}

describe("LiveRequests", () => {
  it("ends the calls that a credential no longer allows and no others (KEY-13)", () => {
    const ends: string[] = [];
    const live = new LiveRequests();
    live.add(call("r1", "k1", "running", ends));
    live.add(call("r2", "k2", "running", ends));
    live.add(call("r3", "k1", "queued", ends));
    live.endExcluded(new Map([["k1", { key: null, readAtMs: 0 }]]), 0);
    expect(ends).toEqual(["r1:key_revoked", "r3:key_revoked"]);
  });

  it("counts calls by stage and resolves when none is open", async () => {
    const live = new LiveRequests();
    await live.emptied();
    const first = call("r1", "k", "running", []);
    const second = call("r2", "k", "running", []);
    const third = call("r3", "k", "watching", []);
    for (const one of [first, second, third]) live.add(one);
    expect(live.countByStage()).toEqual({ running: 2, watching: 1 });
    let empty = false;
    const emptied = live.emptied().then(() => {
      empty = true;
    });
    live.remove(first);
    live.remove(second);
    await Promise.resolve();
    expect(empty).toBe(false);
    live.remove(third);
    await emptied;
    expect(live.size).toBe(0);
  });

  it("lists the open calls, in whatever order calls end", () => {
    const live = new LiveRequests();
    const calls = Array.from({ length: 40 }, (_, i) => call(`r${i}`, `k${i}`, "running", []));
    for (const one of calls) live.add(one);
    for (const [i, one] of calls.entries()) if (i % 3 !== 0) live.remove(one);
    for (const one of calls.slice(0, 2))
      live.add(call(`again ${one.requestId}`, one.principal.keyId ?? "", "running", []));
    const left = calls.filter((_, i) => i % 3 === 0).map(({ principal }) => principal.keyId);
    expect([...live.keyIds()].sort()).toEqual([...new Set([...left, "k0", "k1"])].sort());
    expect(live.size).toBe(left.length + 2);
  });

  it("ends watches when the service begins to stop, and lets requests run (REL-10)", () => {
    const ends: string[] = [];
    const live = new LiveRequests();
    live.add(call("w", "k", "watching", ends));
    live.add(call("r", "k", "running", ends));
    live.abortWatches();
    expect(ends).toEqual(["w:shutting_down"]);
  });
});
