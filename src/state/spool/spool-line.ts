import type { Threshold } from "../../domain/events/threshold.js";
import type { Settlement } from "../../domain/metering/ledger.js";
import { fromCheckedLine, toCheckedLine } from "../../lib/checked-line.js";

/** A threshold's limit may exceed what JSON numbers hold, so it is written as text. */
type StoredThreshold = Omit<Threshold, "limit"> & { readonly limit: string };
type StoredSettlement = Omit<Settlement, "thresholds"> & { readonly thresholds: readonly StoredThreshold[] };

/** One line of the spool, with its line break. */
export function toSpoolLine(settlement: Settlement): string {
  const thresholds = settlement.thresholds.map((threshold) => ({ ...threshold, limit: String(threshold.limit) }));
  return toCheckedLine(JSON.stringify({ ...settlement, thresholds } satisfies StoredSettlement));
}

/** Null for a damaged line. Version 0.1 wrote the JSON alone. */
export function fromSpoolLine(line: string): Settlement | null {
  const text = line.startsWith("{") ? line : fromCheckedLine(line);
  if (text === null) return null;
  try {
    const stored = JSON.parse(text) as StoredSettlement;
    if (typeof stored?.requestId !== "string") return null;
    return { ...stored, thresholds: stored.thresholds.map((each) => ({ ...each, limit: BigInt(each.limit) })) };
  } catch {
    return null;
  }
}
