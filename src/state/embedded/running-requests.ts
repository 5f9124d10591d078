import type { Clock } from "../../domain/call/ports.js";
import type { AdmissionJournal } from "./admission-journal.js";
import type { LiveRow } from "./live-rows.js";
import type { WorkerLink } from "./worker-link.js";

/** How long a row may wait for others. A request that ends sooner never writes one. */
const rowDelayMs = 2;

export interface RunningRequestsDeps {
  readonly link: Pick<WorkerLink, "carry" | "nudge">;
  readonly journal: Pick<AdmissionJournal, "note">;
  readonly clock: Pick<Clock, "after">;
}

/**
 * Records running requests for the next process to find after a kill: at once in the journal, soon afterwards in the
 * file, neither of them synced.
 */
export class RunningRequests {
  readonly #deps: RunningRequestsDeps;
  /** Rows that the file does not have yet. */
  #unwritten = new Map<string, LiveRow>();
  #isDelayed = false;

  constructor(deps: RunningRequestsDeps) {
    this.#deps = deps;
    deps.link.carry(() => this.#takeUnwritten());
  }

  begin(row: LiveRow): void {
    const { link, journal, clock } = this.#deps;
    journal.note(row);
    this.#unwritten.set(row.requestId, row);
    if (this.#isDelayed) return;
    this.#isDelayed = true;
    clock.after(rowDelayMs, () => {
      this.#isDelayed = false;
      link.nudge();
    });
  }

  /** The settlement that follows removes a row that was written already. */
  end(requestId: string): void {
    this.#unwritten.delete(requestId);
  }

  #takeUnwritten(): readonly LiveRow[] | null {
    if (this.#unwritten.size === 0) return null;
    const rows = [...this.#unwritten.values()];
    // Not cleared: a cleared map goes on pointing to the next table, and its garbage keeps that of all later batches.
    this.#unwritten = new Map();
    return rows;
  }
}
