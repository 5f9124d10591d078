import type { Call } from "../call/call.js";
import { type EndReason, errorOfEnd } from "../call/call-context.js";
import type { Observer } from "../call/observer.js";
import type { Clock } from "../call/ports.js";
import type { LimitScope } from "../call/rate-limits.js";
import type { ServiceError } from "../call/service-error.js";
import { UsageTally } from "../call/usage-tally.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Accounting } from "../metering/accounting.js";
import { leaseMs } from "../metering/lease-keeper.js";
import type { Admitted, Budget, Charge, Ledger } from "../metering/ledger.js";
import type { LimitBook } from "../metering/limit-book.js";
import type { LimitGate } from "../metering/limit-gate.js";
import { errorOfRefusal } from "../metering/limit-response.js";
import type { Reservation } from "./reservation.js";

export interface RunDeps {
  readonly ledger: Pick<Ledger, "settle">;
  readonly accounting: Pick<Accounting, "settlementOf">;
  readonly clock: Clock;
  readonly observer: Pick<Observer, "usageLost">;
}

/** Maximum wait for the final usage of an aborted engine, which normally arrives within milliseconds. */
const engineEndWaitMs = 1_000;

/**
 * One admitted request. The first `end` decides the reason, and the settlement is written exactly once. It does not
 * rely on a transport calling `return()` on an iterator, which a generator blocked in an `await` does not see.
 */
export class Run {
  readonly call: Call;
  readonly model: CatalogModel;
  readonly tally = new UsageTally();
  readonly #deps: RunDeps;
  /** Its limits were decided without the shared store. */
  readonly #degraded: boolean;
  #settling: Promise<void> | null = null;
  #engineHasEnded = false;
  #onEngineEnd: () => void = () => {};

  constructor(deps: RunDeps, call: Call, model: CatalogModel, degraded: boolean) {
    this.#deps = deps;
    this.#degraded = degraded;
    this.call = call;
    this.model = model;
    call.hold(this.tally);
  }

  /** Records the tokens of a choice so far, held-back text included. */
  produced(choice: number, outTokens: number): void {
    this.tally.produced(choice, outTokens);
  }

  /** Records that the engine has finished and the tally is final. */
  engineEnded(): void {
    this.#engineHasEnded = true;
    this.call.times.engineEnded(this.#deps.clock.monotonic());
    this.#onEngineEnd();
  }

  /** Ends and settles. Idempotent: later calls wait for the same settlement and change nothing. */
  end(why: EndReason, error?: ServiceError): Promise<void> {
    this.#settling ??= this.#settle(why, error ?? null);
    return this.#settling;
  }

  async #settle(why: EndReason, error: ServiceError | null): Promise<void> {
    if (why !== "completed" && !this.#engineHasEnded) await this.#engineEnd();
    const { call } = this;
    const { clock, ledger, accounting, observer } = this.#deps;
    const usage = this.tally.total();
    call.ended(why, error?.code ?? null, usage);
    try {
      const { requestId, account, keyId, operation } = call;
      const request = { requestId, account, keyId, operation, model: this.model, degraded: this.#degraded };
      const latencyMs = clock.now() - call.receivedAtMs;
      await ledger.settle(accounting.settlementOf(request, { why, error, usage, latencyMs }));
    } catch (cause) {
      observer.usageLost();
      throw cause;
    } finally {
      call.letGo();
    }
  }

  /** Waits for the end of the engine, within a bound. */
  async #engineEnd(): Promise<void> {
    let cancelTimer = (): void => {};
    await new Promise<void>((resolve) => {
      this.#onEngineEnd = resolve;
      cancelTimer = this.#deps.clock.after(engineEndWaitMs, resolve);
    });
    cancelTimer();
  }
}

export interface AdmissionDeps extends RunDeps {
  readonly ledger: Pick<Ledger, "admit" | "settle">;
  readonly accounting: Pick<Accounting, "settlementOf" | "budgetsOf" | "costOf">;
  readonly limitBook: Pick<LimitBook, "scopesOf">;
  /** Receives rejections. */
  readonly gate: Pick<LimitGate, "note">;
  readonly observer: Pick<Observer, "usageLost" | "limitHit">;
}

export interface AdmittedRun {
  readonly run: Run;
  readonly admission: Admitted;
}

/**
 * Admits a validated request in one atomic call. The most that it can use is reserved where a limit of tokens or a budget
 * applies; counting a prompt costs the engine a moment, so `reserve` is called only then. Rejects with 429 when a limit
 * or a budget has no room.
 */
export async function admitRun(
  deps: AdmissionDeps,
  call: Call,
  model: CatalogModel,
  reserve: () => Promise<Reservation>,
): Promise<AdmittedRun> {
  throwIfEnded(call);
  const { clock, ledger, accounting, gate, observer } = deps;
  const { requestId, operation, principal, account, keyId } = call;
  const scopes = deps.limitBook.scopesOf(principal, model.id);
  const budgets = accounting.budgetsOf(principal);
  let charge = noCharge;
  let promptTokens = 0;
  if (countsTokens(scopes, budgets)) {
    const most = await reserve();
    throwIfEnded(call);
    const tokens = most.promptTokens + most.outputTokens;
    charge = { tokens, costNano: accounting.costOf(model, most.promptTokens, most.outputTokens) };
    if (most.isCounted) promptTokens = most.promptTokens;
  }
  const request = { requestId, account, keyId, model: model.id, operation, leaseMs, scopes, budgets, promptTokens };
  const askedAtMs = clock.monotonic();
  const admission = await ledger.admit({ ...request, reserve: charge });
  call.times.admitted(clock.monotonic() - askedAtMs);
  if (admission.admitted) return { run: new Run(deps, call, model, admission.degraded), admission };
  gate.note(admission);
  observer.limitHit(admission.refusal.which);
  throw errorOfRefusal(admission);
}

const noCharge: Charge = Object.freeze({ tokens: 0, costNano: 0 });

function throwIfEnded(call: Call): void {
  if (call.stop.aborted) throw errorOfEnd(call.stop.reason);
}

function countsTokens(scopes: readonly LimitScope[], budgets: readonly Budget[]): boolean {
  return (
    scopes.some(({ limits }) => limits.tokensPerMinute !== null) || budgets.some(({ metric }) => metric !== "requests")
  );
}
