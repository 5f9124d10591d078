import type { LiveRequests } from "../call/live-requests.js";
import type { Clock, Logger } from "../call/ports.js";
import type { Catalog } from "../catalog/catalog.js";
import type { Accounting } from "./accounting.js";
import type { Ledger, LostRequest } from "./ledger.js";

/** Length of the lease of an admitted request, which counts as running until its lease expires (state RL-18). */
export const leaseMs = 60_000;
/** Three renewals fit into a lease. */
const renewEveryMs = 20_000;
/** Interval of the sweeps. A request of a dead process is settled within 65 s: the lease and one interval. */
const sweepEveryMs = 5_000;
/** Lost requests settled per batch, so that a crash does not slow down running requests. */
const sweepMax = 100;

export interface LeaseKeeperDeps {
  readonly ledger: Pick<Ledger, "renew" | "sweepLost" | "settle">;
  readonly live: Pick<LiveRequests, "progress">;
  readonly accounting: Pick<Accounting, "settlementOfLost">;
  readonly catalog: Pick<Catalog, "pricesOf">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Renews the leases of this process's requests and settles requests of processes that died (USE-13). */
export class LeaseKeeper {
  readonly #deps: LeaseKeeperDeps;
  readonly #cancels = new Set<() => void>();
  #closed = false;

  constructor(deps: LeaseKeeperDeps) {
    this.#deps = deps;
    this.#every(renewEveryMs, "leases could not be renewed", () => this.renew());
    // Also at the start: requests of an earlier process on the same file are certainly lost.
    this.#every(sweepEveryMs, "lost requests could not be settled", () => this.sweep(), 0);
  }

  async renew(): Promise<void> {
    const progress = this.#deps.live.progress();
    if (progress.length > 0) await this.#deps.ledger.renew(progress, leaseMs);
  }

  /** Settles all requests whose lease has expired. */
  async sweep(): Promise<void> {
    const { ledger } = this.#deps;
    for (let lost = await ledger.sweepLost(sweepMax, leaseMs); lost.length > 0 && !this.#closed; ) {
      await this.#settle(lost);
      lost = lost.length < sweepMax ? [] : await ledger.sweepLost(sweepMax, leaseMs);
    }
  }

  /**
   * Requests that still run in this process are skipped: their lease can expire early when the store's clock is set forward.
   */
  async #settle(lost: readonly LostRequest[]): Promise<void> {
    const { ledger, live, accounting, catalog, log } = this.#deps;
    const running = new Set(live.progress().map(({ requestId }) => requestId));
    await Promise.all(
      lost.map(async (request) => {
        if (running.has(request.requestId)) return;
        await ledger.settle(accounting.settlementOfLost(request, catalog.pricesOf(request.model)));
        log.warn({ request_id: request.requestId, account: request.account }, "settled a request of a dead process");
      }),
    );
  }

  close(): void {
    this.#closed = true;
    for (const cancel of this.#cancels) cancel();
  }

  /** Starts the next round only after this one has ended. */
  #every(ms: number, failure: string, run: () => Promise<void>, firstMs = ms): void {
    const cancel = this.#deps.clock.after(firstMs, () => {
      this.#cancels.delete(cancel);
      run()
        .catch((err: unknown) => this.#deps.log.warn({ err }, failure))
        .finally(() => {
          if (!this.#closed) this.#every(ms, failure, run);
        });
    });
    this.#cancels.add(cancel);
  }
}
