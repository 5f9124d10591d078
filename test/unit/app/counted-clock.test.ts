import { expect, it } from "vitest";
import { countTimers } from "../../../src/app/compose/ops-pages.js";
import { FakeClock } from "../../support/fake-clock.js";

it("counts timers until they fire or are cancelled, each once", () => {
  const inner = new FakeClock();
  const clock = countTimers(inner);
  const fired: string[] = [];
  const cancelFirst = clock.after(10, () => fired.push("first"));
  clock.after(20, () => fired.push("second"));
  expect(clock.pending).toBe(2);
  cancelFirst();
  cancelFirst();
  expect(clock.pending).toBe(1);
  inner.advance(20);
  expect(fired).toEqual(["second"]);
  expect(clock.pending).toBe(0);
});
