import { AbortSource } from "../../lib/abort-source.js";
import type { Clock, Logger } from "../call/ports.js";
import type { LoadedModel } from "../engine/engine.js";
import type { Ejection } from "../routing/ejection.js";

/** Interval of the checks, and the time after which a check without a result counts as failed. */
const intervalMs = 3_000;

interface CheckedDeployment {
  readonly id: string;
  readonly ejection: Pick<Ejection, "isEjected" | "checked">;
  readonly model: LoadedModel | null;
}

/**
 * Checks every 3 s whether the servers of failing deployments are reachable, by requests that use no tokens, so that an
 * ejection of up to 5 min ends soon after the server is reachable again (REL-9). No timer runs while no deployment fails.
 */
export class HealthChecks {
  readonly #clock: Pick<Clock, "after">;
  readonly #log: Logger;
  readonly #failing = new Set<CheckedDeployment>();
  #cancelTimer: (() => void) | null = null;
  /** Aborts the checks in progress. */
  #round = new AbortSource();

  constructor(clock: Pick<Clock, "after">, log: Logger) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Checks the deployment until it is in use again or removed. Does nothing if its engine has no health check. */
  begin(deployment: CheckedDeployment): void {
    if (deployment.model?.isReachable === undefined) return;
    this.#failing.add(deployment);
    this.#cancelTimer ??= this.#clock.after(intervalMs, () => this.#check());
  }

  /** Call when the deployment is in use again or removed. */
  end(deployment: CheckedDeployment): void {
    if (!this.#failing.delete(deployment) || this.#failing.size > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#abortRound();
  }

  #check(): void {
    this.#abortRound();
    this.#cancelTimer = this.#clock.after(intervalMs, () => this.#check());
    for (const { id, model, ejection } of this.#failing) {
      model?.isReachable?.(this.#round).then(
        (isReachable) => ejection.checked(isReachable),
        (err: unknown) => {
          this.#log.error({ deployment: id, err }, "a health check failed with an unexpected error");
          ejection.checked(false);
        },
      );
    }
  }

  #abortRound(): void {
    this.#round.abort(new Error("the health check took too long, or is not needed any more"));
    this.#round = new AbortSource();
  }
}
