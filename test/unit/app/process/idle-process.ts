import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { collectWhenIdle } from "../../../../src/app/process/idle-collection.js";
import { runClient } from "../../../support/client-process.js";

export interface IdlePlan {
  /** Objects that are allocated, in mebibytes. */
  readonly mebibytes: number;
  /** Whether the objects are garbage only when the calls end, after a collection that has found them alive. */
  readonly isHeldByCalls: boolean;
}

/** Memory of the process before and after it became quiet, in mebibytes. */
export interface IdleFigures {
  readonly busyHeap: number;
  readonly idleHeap: number;
  readonly idleRss: number;
  readonly busyRss: number;
}

/** The figures of a process of its own that allocates objects, drops them, and then does nothing. */
export function idleFigures(plan: IdlePlan): Promise<IdleFigures> {
  return runClient(fileURLToPath(import.meta.url), plan);
}

const mebibyte = 1024 * 1024;
const intervalMs = 200;
/** Long enough for a collection that finds the objects alive. */
const heldMs = 1_000;
const quietMsMax = 15_000;

function figures(): { heap: number; rss: number } {
  const { heapUsed, rss } = process.memoryUsage();
  return { heap: heapUsed / mebibyte, rss: rss / mebibyte };
}

async function main({ mebibytes, isHeldByCalls }: IdlePlan): Promise<void> {
  let calls = 0;
  collectWhenIdle({ calls: () => calls, intervalMs });
  let held: object[] | null = [];
  calls = isHeldByCalls ? mebibytes * 32 : 0;
  // About 100 bytes each, and old once they have survived two scavenges.
  for (let i = 0; i < mebibytes * 10_000; i++) held.push({ text: `${i}`, list: [i] });
  if (isHeldByCalls) await delay(heldMs);
  const busy = figures();
  if (held.length === 0) throw new Error("nothing is held");
  held = null;
  calls = 0;
  let idle = figures();
  // V8 frees the pages after the collection, in another thread: the resident memory falls later than the heap.
  const isGivenBack = (): boolean => idle.heap < busy.heap / 2 && busy.rss - idle.rss > mebibytes / 2;
  for (const endMs = Date.now() + quietMsMax; !isGivenBack() && Date.now() < endMs; idle = figures()) {
    await delay(intervalMs);
  }
  const result: IdleFigures = { busyHeap: busy.heap, idleHeap: idle.heap, busyRss: busy.rss, idleRss: idle.rss };
  process.stdout.write(JSON.stringify(result));
}

const [, script, plan] = process.argv;
if (script === fileURLToPath(import.meta.url) && plan !== undefined) await main(JSON.parse(plan) as IdlePlan);
