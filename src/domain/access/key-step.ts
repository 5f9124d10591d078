import { isListed } from "./key-filter.js";
import { cursorOf } from "./key-order.js";
import { type ApiKeyPage, type ApiKeyRecord, type KeyStep, keysPerStep } from "./key-store.js";

/** How many keys a step looks at: where every key passes, those that it is to find. */
export function looksOf({ filter, limit }: KeyStep): number {
  return filter.search === null && filter.state === null ? Math.min(limit, keysPerStep) : keysPerStep;
}

/**
 * What a step has found among the keys that it looked at, which come in the order of the list. `next` is the cursor behind
 * all of them; null when no key follows.
 */
export function pageOfStep(
  { filter, limit }: KeyStep,
  looked: readonly ApiKeyRecord[],
  next: string | null,
): ApiKeyPage {
  const found = looked.filter((record) => isListed(record, filter));
  const records = found.slice(0, limit);
  const last = records.at(-1);
  return { records, next: found.length > limit && last !== undefined ? cursorOf(last) : next };
}
