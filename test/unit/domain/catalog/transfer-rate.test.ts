import { describe, expect, it } from "vitest";
import { TransferRate } from "../../../../src/domain/catalog/transfer-rate.js";

function setUp() {
  const time = { ms: 0 };
  const rate = new TransferRate(() => time.ms);
  const received = (atMs: number, bytes: number): number | null => {
    time.ms = atMs;
    rate.received(bytes);
    return rate.bytesPerSecond;
  };
  return { time, rate, received };
}

describe("the rate of a download", () => {
  it("is unknown in the first half second, then the average of the last 5 s", () => {
    const { received } = setUp();
    expect(received(0, 1_000)).toBeNull();
    expect(received(400, 2_000)).toBeNull();
    expect(received(1_000, 2_000)).toBe(1_000);
    for (let second = 2; second <= 20; second++) received(second * 1_000, 2_000 + second * 100);
    expect(received(21_000, 4_100)).toBe(100);
  });

  it("counts from the bytes of an interrupted attempt, and from the start when another source begins", () => {
    const { received } = setUp();
    received(0, 50_000);
    expect(received(1_000, 51_000)).toBe(1_000);
    expect(received(2_000, 0)).toBeNull();
    expect(received(10_000, 500)).toBeNull();
    expect(received(11_000, 700)).toBe(200);
  });

  it("falls while nothing is received", () => {
    const { time, rate, received } = setUp();
    received(0, 1);
    expect(received(1_000, 4_001)).toBe(4_000);
    time.ms = 4_000;
    expect(rate.bytesPerSecond).toBe(1_000);
  });
});
