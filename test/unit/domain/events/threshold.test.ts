import { expect, it } from "vitest";
import { valuesOf } from "../../../../src/domain/events/events.js";

it("a threshold notifies only of the highest of several percentages that round to the same value (USE-5)", () => {
  expect(valuesOf({ limit: 1n, percents: [50, 80, 100] })).toEqual([{ percent: 100, value: 1n }]);
  expect(valuesOf({ limit: 3n, percents: [30, 50, 60, 100] })).toEqual([
    { percent: 30, value: 1n },
    { percent: 60, value: 2n },
    { percent: 100, value: 3n },
  ]);
});
