import type { Call } from "../call/call.js";
import type { EndReason } from "../call/call-context.js";
import type { Observer } from "../call/observer.js";
import type { Clock } from "../call/ports.js";
import type { ServiceError } from "../call/service-error.js";
import { UsageTally } from "../call/usage-tally.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Accounting } from "../metering/accounting.js";
import type { Ledger } from "../metering/ledger.js";

export interface RunDeps {
  readonly ledger: Pick<Ledger, "settle">;
  readonly accounting: Pick<Accounting, "settlementOf">;
  readonly clock: Clock;
  readonly observer: Pick<Observer, "usageLost">;
}

/**
 * How long an ended request waits for its engine to say what it had produced. An engine answers an abort within
 * milliseconds; one that does not is settled with what was seen.
 */
const lastWordsMs = 1_000;

/**
 * One admitted request. Whoever ends it first decides why; the settlement is written exactly once, by then or never.
 * It does not depend on a door calling `return()` on an iterator: a generator that is blocked in an `await` does not see
 * that.
 */
export class Run {
  readonly call: Call;
  readonly model: CatalogModel;
  readonly tally = new UsageTally();
  readonly #deps: RunDeps;
  /** Its limits were decided without the shared store. */
  readonly #degraded: boolean;
  #hasEnded = false;
  #settling: Promise<void> | undefined;
  #engineHasEnded = false;
  #onEngineEnd: () => void = () => {};

  constructor(deps: RunDeps, call: Call, model: CatalogModel, degraded: boolean) {
    this.#deps = deps;
    this.#degraded = degraded;
    this.call = call;
    this.model = model;
    call.hold(this.tally);
  }

  /** Tokens of a choice so far, held-back text included. */
  produced(choice: number, outTokens: number): void {
    this.tally.produced(choice, outTokens);
  }

  /** The engine will add nothing to the tally. */
  engineEnded(): void {
    this.#engineHasEnded = true;
    this.call.times.engineEnded(this.#deps.clock.monotonic());
    this.#onEngineEnd();
  }

  /**
   * Ends and settles; a promise where that has to be waited for. Idempotent: later calls wait for the same settlement and
   * change nothing.
   */
  end(why: EndReason, error?: ServiceError): Promise<void> | undefined {
    if (!this.#hasEnded) {
      this.#hasEnded = true;
      const isOver = why === "completed" || this.#engineHasEnded;
      this.#settling = isOver ? this.#settle(why, error) : this.#lastWords().then(() => this.#settle(why, error));
    }
    return this.#settling;
  }

  #settle(why: EndReason, error: ServiceError | undefined): Promise<void> | undefined {
    const { call, tally } = this;
    const { clock, ledger, accounting } = this.#deps;
    const usage = tally.total();
    call.ended(why, error?.code ?? null, usage);
    try {
      const { requestId, account, keyId, operation } = call;
      const request = { requestId, account, keyId, operation, model: this.model, degraded: this.#degraded };
      const latencyMs = clock.now() - call.receivedAtMs;
      const settling = ledger.settle(accounting.settlementOf(request, { why, error: error ?? null, usage, latencyMs }));
      if (settling instanceof Promise) return this.#written(settling);
    } catch (cause) {
      return this.#written(Promise.reject(cause));
    }
    call.letGo();
    return undefined;
  }

  async #written(settling: Promise<unknown>): Promise<void> {
    try {
      await settling;
    } catch (cause) {
      this.#deps.observer.usageLost();
      throw cause;
    } finally {
      this.call.letGo();
    }
  }

  /** Waits until the engine has ended, but not for long. */
  async #lastWords(): Promise<void> {
    let cancelTimer = (): void => {};
    await new Promise<void>((resolve) => {
      this.#onEngineEnd = resolve;
      cancelTimer = this.#deps.clock.after(lastWordsMs, resolve);
    });
    cancelTimer();
  }
}
