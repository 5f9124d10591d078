import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { createTurnBatch, createTurnEnd } from "../../../src/lib/clock.js";

it("all callers of a turn get one promise, which resolves at the end of the turn", async () => {
  const endOfTurn = createTurnEnd();
  const steps: string[] = [];
  const first = endOfTurn().then(() => steps.push("end"));
  process.nextTick(() => {
    steps.push("ready socket");
    void endOfTurn().then(() => steps.push("end"));
  });
  await first;
  expect(steps).toEqual(["ready socket", "end", "end"]);
  await endOfTurn();
});

it("what is added in a turn runs at its end, in order, and what is added then runs a turn later", async () => {
  const atEnd = createTurnBatch();
  const steps: string[] = [];
  atEnd(() => {
    steps.push("first");
    atEnd(() => steps.push("later"));
  });
  atEnd(() => steps.push("second"));
  expect(steps).toEqual([]);
  await nextTurn();
  expect(steps).toEqual(["first", "second"]);
  await nextTurn();
  expect(steps).toEqual(["first", "second", "later"]);
});
