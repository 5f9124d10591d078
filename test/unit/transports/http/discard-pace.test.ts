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

it("unwanted bodies of all connections together are discarded at 200 MB a second at most (E-1)", () => {
  const clock = new FakeClock();
  const pace = new DiscardPace((ms, run) => clock.after(ms, run));
  const bodies = Array.from({ length: 8 }, () => new Body(pace));
  for (let elapsedMs = 0; elapsedMs < 100; elapsedMs += 10) {
    for (const body of bodies) body.readAll();
    clock.advance(10);
  }
  const bytes = bodies.reduce((sum, body) => sum + body.bytes, 0);
  expect(bytes).toBeGreaterThan(20_000_000);
  expect(bytes).toBeLessThan(26_000_000);
  expect(bodies.every((body) => !body.isPaused && body.bytes > 0)).toBe(true);
  for (const body of bodies) body.readAll();
  bodies[0]?.pause();
  if (bodies[0] !== undefined) pace.leave(bodies[0]);
  clock.advance(10);
  expect(bodies.map((body) => body.isPaused)).toEqual([true, ...Array(7).fill(false)]);
});
