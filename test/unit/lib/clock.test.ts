import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createSystemClock } from "../../../src/lib/clock.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("the system clock counts each pending timer once, until it fires or is cancelled", () => {
  const clock = createSystemClock();
  const fired: string[] = [];
  const cancelFirst = clock.after(10, () => fired.push("first"));
  clock.after(20, () => fired.push("second"));
  expect(clock.pending).toBe(2);
  cancelFirst();
  cancelFirst();
  expect(clock.pending).toBe(1);
  vi.advanceTimersByTime(20);
  expect(fired).toEqual(["second"]);
  expect(clock.pending).toBe(0);
});
