import { expect, it } from "vitest";
import { DiscardPace } from "../../../../src/transports/http/answer.js";
import { FakeClock } from "../../../support/fake-clock.js";

/** A body that is read in pieces of 64 KiB while it is not paused. */
class Body {
  isPaused = false;
  bytes = 0;
  readonly #pace: DiscardPace;

  constructor(pace: DiscardPace) {
    this.#pace = pace;
  }

  pause(): this {
    this.isPaused = true;
    return this;
  }

  resume(): this {
    this.isPaused = false;
    return this;
  }

  readAll(): void {
    while (!this.isPaused) {
      this.bytes += 65_536;
      this.#pace.took(this, 65_536);
    }
  }
}

function isRead({ isPaused }: Body): boolean {
  return !isPaused;
}

it("unwanted bodies of all connections together are discarded at 50 MB a second at most, in turns (E-1)", () => {
  const clock = new FakeClock();
  const pace = new DiscardPace((ms, run) => clock.after(ms, run));
  const bodies = Array.from({ length: 200 }, () => new Body(pace));
  const total = (): number => bodies.reduce((sum, body) => sum + body.bytes, 0);
  // Every connection is read once before it can be paused.
  for (const body of bodies) body.readAll();
  const firstBytes = total();
  for (let elapsedMs = 0; elapsedMs < 1_000; elapsedMs += 10) {
    clock.advance(10);
    // Each turn resumes the next body.
    for (let reading = bodies.find(isRead); reading !== undefined; reading = bodies.find(isRead)) reading.readAll();
  }
  expect(total() - firstBytes).toBeGreaterThan(45_000_000);
  expect(total() - firstBytes).toBeLessThan(55_000_000);
  const each = bodies.map(({ bytes }) => bytes);
  expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(9 * 65_536);
});

it("a body that is not read any more is not resumed", () => {
  const clock = new FakeClock();
  const pace = new DiscardPace((ms, run) => clock.after(ms, run));
  const [left, kept] = [new Body(pace), new Body(pace)];
  left.readAll();
  kept.readAll();
  pace.leave(left);
  clock.advance(10);
  expect([left.isPaused, kept.isPaused]).toEqual([true, false]);
});
