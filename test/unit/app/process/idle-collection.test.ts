import { describe, expect, it } from "vitest";
import { type IdlePlan, idleFigures } from "./idle-process.js";

const plans: readonly (IdlePlan & { readonly title: string })[] = [
  { title: "garbage of a busy time", mebibytes: 100, isHeldByCalls: false },
  { title: "what ended calls have left, after a collection while they ran", mebibytes: 100, isHeldByCalls: true },
];

describe("a process that has become quiet gives back", () => {
  it.each(plans)("$title", async (plan) => {
    const { busyHeap, idleHeap, busyRss, idleRss } = await idleFigures(plan);
    expect(busyHeap - idleHeap).toBeGreaterThan(plan.mebibytes / 2);
    expect(busyRss - idleRss).toBeGreaterThan(plan.mebibytes / 2);
  });
});
