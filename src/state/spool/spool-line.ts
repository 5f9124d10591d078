import type { Threshold } from "../../domain/events/threshold.js";
import type { Settlement } from "../../domain/metering/ledger.js";

/** A threshold's limit may be beyond what JSON numbers hold, so it is written as text. */
type KeptThreshold = Omit<Threshold, "limit"> & { readonly limit: string };
type KeptSettlement = Omit<Settlement, "thresholds"> & { readonly thresholds: readonly KeptThreshold[] };

/** One line of the spool: JSON and a line break. */
export function toSpoolLine(settlement: Settlement): string {
  const thresholds = settlement.thresholds.map((threshold) => ({ ...threshold, limit: String(threshold.limit) }));
  return `${JSON.stringify({ ...settlement, thresholds } satisfies KeptSettlement)}\n`;
}

/** Null for a line that was not written whole. */
export function fromSpoolLine(line: string): Settlement | null {
  let kept: KeptSettlement;
  try {
    kept = JSON.parse(line) as KeptSettlement;
  } catch {
    // The process or the machine ended while the line was written: it was never acknowledged.
    return null;
  }
  if (typeof kept?.requestId !== "string" || !Array.isArray(kept.thresholds)) return null;
  return { ...kept, thresholds: kept.thresholds.map((each) => ({ ...each, limit: BigInt(each.limit) })) };
}
