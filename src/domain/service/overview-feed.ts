import { equals } from "@bufbuild/protobuf";
import { type System, SystemSchema } from "../../../gen/unified/admin/v1/system_pb.js";
import { errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import type { ServiceStatus } from "./service-status.js";

export interface OverviewFeedDeps {
  readonly status: Pick<ServiceStatus, "read">;
  readonly clock: Pick<Clock, "after">;
}

/** One look at the service. */
export interface Look {
  readonly system: System;
  /** Whether something other than the time has changed since the watcher's look before. */
  readonly hasChanged: boolean;
}

/** How often the service is looked at while somebody watches. */
export const lookEveryMs = 2_000;

interface Taken {
  readonly system: System;
  /** Grows by one with each change. */
  readonly change: number;
}

/**
 * Looks at the service for all who watch it, once for all of them; while nobody watches there is no timer. A watcher that
 * is slower than the looks gets the latest one.
 */
export class OverviewFeed {
  readonly #deps: OverviewFeedDeps;
  readonly #watchers = new Set<() => void>();
  #latest: Taken | null = null;
  #isLooking = false;
  #cancelTimer: () => void = () => {};

  constructor(deps: OverviewFeedDeps) {
    this.#deps = deps;
  }

  /** A look at once, then each that follows, until the signal aborts. Rejects with ServiceError. */
  async *watch(signal: AbortSignal): AsyncGenerator<Look> {
    let wake = (): void => {};
    const ring = (): void => wake();
    this.#watchers.add(ring);
    signal.addEventListener("abort", ring);
    try {
      this.#begin();
      let told: Taken | null = null;
      for (;;) {
        if (signal.aborted) throw errorOfEnd(signal.reason);
        const taken: Taken | null = this.#latest;
        if (taken === null || taken === told) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
          continue;
        }
        yield { system: taken.system, hasChanged: taken.change !== told?.change };
        told = taken;
      }
    } finally {
      signal.removeEventListener("abort", ring);
      this.#leave(ring);
    }
  }

  #begin(): void {
    if (this.#watchers.size === 1 && !this.#isLooking) void this.#look();
  }

  #leave(ring: () => void): void {
    this.#watchers.delete(ring);
    if (this.#watchers.size > 0) return;
    this.#cancelTimer();
    this.#latest = null;
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    const system = await this.#deps.status.read();
    this.#isLooking = false;
    if (this.#watchers.size === 0) return;
    const before = this.#latest;
    const isSame = before !== null && equals(SystemSchema, comparable(before.system), comparable(system));
    this.#latest = { system, change: (before?.change ?? 0) + (isSame ? 0 : 1) };
    this.#cancelTimer = this.#deps.clock.after(lookEveryMs, () => void this.#look());
    for (const ring of [...this.#watchers]) ring();
  }
}

/** Without the time, which always moves, and with the store's round trip as its order of magnitude, which seldom does. */
function comparable(system: System): System {
  const { state, now: _, ...rest } = system;
  const latencyMs = 2 ** Math.round(Math.log2(Math.max(1, state?.latencyMs ?? 0)));
  return { ...rest, ...(state === undefined ? {} : { state: { ...state, latencyMs } }) };
}
