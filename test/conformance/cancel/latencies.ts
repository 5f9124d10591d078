import { mkdirSync, writeFileSync } from "node:fs";
import { expect } from "vitest";

/** Target for the time from an abort until the engine stops; the test allows five times as much on a busy machine. */
const aim = { p50Ms: 50, p995Ms: 250, maxMs: 1_000 };
const slack = 5;

export interface Figures {
  readonly rounds: number;
  readonly p50Ms: number;
  readonly p995Ms: number;
  readonly maxMs: number;
}

export function figuresOf(latenciesMs: readonly number[]): Figures {
  const sorted = [...latenciesMs].sort((a, b) => a - b);
  const at = (share: number): number =>
    Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0) * 10) / 10;
  return { rounds: sorted.length, p50Ms: at(0.5), p995Ms: at(0.995), maxMs: at(1) };
}

export function expectQuick(figures: Figures): void {
  expect(figures.p50Ms).toBeLessThan(aim.p50Ms * slack);
  expect(figures.p995Ms).toBeLessThan(aim.p995Ms * slack);
  expect(figures.maxMs).toBeLessThan(aim.maxMs * slack);
}

/** Writes the measured times of a run to the folder of the test reports. */
export function writeFigures(figures: Readonly<Record<string, Figures>>, name = "cancellation"): void {
  mkdirSync("test-results/figures", { recursive: true });
  writeFileSync(`test-results/figures/${name}-${process.version}.json`, `${JSON.stringify(figures, null, 2)}\n`);
}
