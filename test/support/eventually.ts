import { setTimeout as delay } from "node:timers/promises";

const pollMs = 2;
const defaultPatienceMs = 10_000;

/** Resolves as soon as the condition holds; rejects when it does not within `patienceMs`, ten seconds by default. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  what = "the condition",
  patienceMs = defaultPatienceMs,
): Promise<void> {
  const untilMs = performance.now() + patienceMs;
  while (!(await condition())) {
    if (performance.now() > untilMs) throw new Error(`timed out waiting for: ${what}`);
    await delay(pollMs);
  }
}
