import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Heap } from "../../../../src/state/volatile/heap.js";

const numberHeap = (): Heap<number> => new Heap((a, b) => a < b);

function drained(heap: Heap<number>): number[] {
  const taken: number[] = [];
  for (let next = heap.pop(); next !== undefined; next = heap.pop()) taken.push(next);
  return taken;
}

describe("Heap", () => {
  it("takes out the smallest first, whatever was put in and taken out before", () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.integer())), (steps) => {
        const heap = numberHeap();
        const sorted: number[] = [];
        for (const step of steps) {
          if (step === null) expect(heap.pop()).toBe(sorted.shift());
          else {
            heap.push(step);
            sorted.push(step);
            sorted.sort((a, b) => a - b);
          }
          expect(heap.peek()).toBe(sorted[0]);
          expect(heap.size).toBe(sorted.length);
        }
        expect(drained(heap)).toEqual(sorted);
      }),
    );
  });

  it("forgets what does not pass", () => {
    const heap = numberHeap();
    for (const number of [5, 2, 8, 1, 9, 4]) heap.push(number);
    heap.retain((number) => number % 2 === 0);
    expect(drained(heap)).toEqual([2, 4, 8]);
  });
});
