import { describe, expect, it } from "vitest";
import { RetryBudget } from "../../../../src/domain/routing/retry-budget.js";
import { FakeClock } from "../../../support/fake-clock.js";

function budgetWith() {
  const clock = new FakeClock();
  return { clock, budget: new RetryBudget(clock) };
}

function countTaken(budget: RetryBudget, asked: number): number {
  return Array.from({ length: asked }, () => budget.take(1)).filter(Boolean).length;
}

describe("RetryBudget", () => {
  it("allows retries for 20 % of the requests of 10 s plus 10 retries a second, and counts denied ones (REL-8)", () => {
    const { budget } = budgetWith();
    expect(countTaken(budget, 110)).toBe(100);
    expect(budget.exhausted).toBe(10);
    for (let i = 0; i < 500; i++) budget.requested();
    expect(countTaken(budget, 110)).toBe(100);
    expect(budget.exhausted).toBe(20);
  });

  it("a request has at most 2 further tries, and a third one does not count as denied by the budget (REL-8)", () => {
    const { budget } = budgetWith();
    expect([1, 2, 3].map((tries) => budget.take(tries))).toEqual([true, true, false]);
    expect(budget.exhausted).toBe(0);
  });

  it("the window slides: requests and tries count for 10 s", () => {
    const { budget, clock } = budgetWith();
    for (let i = 0; i < 50; i++) budget.requested();
    clock.advance(5_000);
    expect(countTaken(budget, 200)).toBe(110);
    clock.advance(5_250);
    // The requests have left the window, the tries have not.
    expect(countTaken(budget, 200)).toBe(0);
    clock.advance(5_000);
    expect(countTaken(budget, 200)).toBe(100);
    clock.advance(3_600_000);
    expect(countTaken(budget, 200)).toBe(100);
  });

  it("an upstream that always fails gets at most 1.25 times the requests at 200 a second (REL-8)", () => {
    const { budget, clock } = budgetWith();
    let requests = 0;
    let sent = 0;
    for (let ms = 0; ms < 30_000; ms += 5) {
      clock.advance(5);
      budget.requested();
      requests += 1;
      for (let tries = 1; tries === 1 || budget.take(tries - 1); tries++) sent += 1;
    }
    expect(sent / requests).toBeLessThanOrEqual(1.25);
    expect(sent / requests).toBeGreaterThan(1.2);
  });
});
