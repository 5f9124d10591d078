import type { Call } from "./call.js";
import type { EndReason } from "./call-context.js";
import type { Ledger } from "./ledger.js";
import type { Clock } from "./ports.js";
import type { ServiceError } from "./service-error.js";
import { UsageTally } from "./usage/usage-tally.js";

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
  readonly model: string;
  readonly tally = new UsageTally();
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  #settled: Promise<void> | undefined;
  #engineHasEnded = false;
  #onEngineEnd: () => void = () => {};

  constructor(deps: { ledger: Ledger; clock: Clock }, call: Call, model: string) {
    this.#ledger = deps.ledger;
    this.#clock = deps.clock;
    this.call = call;
    this.model = model;
    call.hold();
  }

  /** Tokens of a choice so far, held-back text included. */
  produced(choice: number, outTokens: number): void {
    this.tally.produced(choice, outTokens);
  }

  /** The engine will add nothing to the tally. */
  engineEnded(): void {
    this.#engineHasEnded = true;
    this.#onEngineEnd();
  }

  /** Ends and settles. Idempotent: later calls wait for the same settlement and change nothing. */
  end(why: EndReason, error?: ServiceError): Promise<void> {
    this.#settled ??= this.#settle(why, error);
    return this.#settled;
  }

  async #settle(why: EndReason, error: ServiceError | undefined): Promise<void> {
    if (why !== "completed" && !this.#engineHasEnded) await this.#lastWords();
    const { call, tally } = this;
    const usage = tally.total();
    call.ended(why, error?.code ?? null, usage);
    try {
      const settling = this.#ledger.settle({
        requestId: call.requestId,
        account: call.principal.account,
        keyId: call.principal.keyId,
        model: this.model,
        operation: call.operation,
        why,
        error: error?.code ?? null,
        promptTokens: usage.promptTokens,
        completionTokens: usage.completionTokens,
        cachedTokens: usage.cachedTokens,
        latencyMs: this.#clock.now() - call.receivedAtMs,
      });
      if (settling instanceof Promise) await settling;
    } finally {
      call.letGo();
    }
  }

  /** Waits until the engine has ended, but not for long. */
  async #lastWords(): Promise<void> {
    let cancelTimer = (): void => {};
    await new Promise<void>((resolve) => {
      this.#onEngineEnd = resolve;
      cancelTimer = this.#clock.after(lastWordsMs, resolve);
    });
    cancelTimer();
  }
}
