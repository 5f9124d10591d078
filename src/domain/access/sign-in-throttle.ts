import type { AbortFlag } from "../../lib/abort-source.js";
import { errorOfEnd } from "../call/call-context.js";
import { type Clock, pause } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import { AttemptLimit, hostOf, networkOf } from "./attempt-limit.js";

/** Failed sign-ins per minute of one host, and of the network around it; further ones are rejected (KEY-21). */
const perHost = 5;
const perNetwork = 20;
/** Failed sign-ins per minute with one name from all unknown callers, and of one known caller; further ones are delayed. */
const perName = 5;
const perKnown = 5;
/** Delay of a sign-in over the limit of its name or of a known caller. */
const delayMs = 3_000;
/** Maximum attempts of one known caller that wait until its previous attempt ends. */
const waitingMax = 8;
const busyRetryMs = 10_000;

/** A sign-in about to be checked. */
export interface SignInAttempt {
  readonly user: string;
  /** Peer address without port. */
  readonly address: string;
  /** Key of a caller that has signed in before, or is signed in; null for an unknown one. */
  readonly knownAs: string | null;
  /** Aborts when the client leaves. */
  readonly signal: AbortFlag | null;
}

/** Call it once the attempt is over. Only attempts whose password was wrong stay counted. */
type EndAttempt = (isWrong: boolean) => void;

/**
 * Limits wrong passwords without locking out the administrator (E-13). Unknown callers are counted by host and by network,
 * and rejected over these limits; over the limit of the name they are delayed only. Callers that have signed in before are
 * counted by themselves, checked one at a time and delayed over their limit, so that a right password is accepted.
 * Counts are in memory of this process.
 */
export class SignInThrottle {
  readonly #clock: Pick<Clock, "monotonic" | "after">;
  readonly #byHost = new AttemptLimit(perHost);
  readonly #byNetwork = new AttemptLimit(perNetwork);
  readonly #byName = new AttemptLimit(perName);
  readonly #byKnown = new AttemptLimit(perKnown);
  /** Attempts of known callers that wait for the one in progress. A caller without one in progress has no entry. */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(clock: Pick<Clock, "monotonic" | "after">) {
    this.#clock = clock;
  }

  /** Resolves when the password may be checked. Rejects with `rate_limit_exceeded`, or when the client leaves. */
  begin(attempt: SignInAttempt): Promise<EndAttempt> {
    const { knownAs } = attempt;
    return knownAs === null ? this.#beginUnknown(attempt) : this.#beginKnown(attempt, knownAs);
  }

  /**
   * Counts a failed attempt of an unknown caller; the returned function uncounts it. Throws `rate_limit_exceeded` over the
   * limits of host and network.
   */
  countFailure(address: string): () => void {
    const [host, network, nowMs] = [hostOf(address), networkOf(address), this.#clock.monotonic()];
    const waitMs = this.#byHost.take(host, nowMs);
    if (waitMs !== null) throw tooMany(waitMs);
    const networkWaitMs = this.#byNetwork.take(network, nowMs);
    if (networkWaitMs !== null) {
      this.#byHost.giveBack(host);
      throw tooMany(networkWaitMs);
    }
    return () => {
      this.#byHost.giveBack(host);
      this.#byNetwork.giveBack(network);
    };
  }

  async #beginUnknown({ user, address, signal }: SignInAttempt): Promise<EndAttempt> {
    // Counted before the check, so that concurrent attempts cannot exceed the limits.
    const giveBack = this.countFailure(address);
    const isOver = this.#byName.take(user, this.#clock.monotonic()) !== null;
    const end = (isWrong: boolean): void => {
      if (isWrong) return;
      giveBack();
      if (!isOver) this.#byName.giveBack(user);
    };
    if (isOver) await this.#delay(signal, () => end(false));
    return end;
  }

  async #beginKnown({ signal }: SignInAttempt, caller: string): Promise<EndAttempt> {
    await this.#waitForTurn(caller);
    const isOver = this.#byKnown.take(caller, this.#clock.monotonic()) !== null;
    const end = (isWrong: boolean): void => {
      if (!isWrong && !isOver) this.#byKnown.giveBack(caller);
      this.#endTurn(caller);
    };
    if (isOver) await this.#delay(signal, () => end(false));
    return end;
  }

  async #waitForTurn(caller: string): Promise<void> {
    const waiting = this.#waiting.get(caller);
    if (waiting === undefined) {
      this.#waiting.set(caller, []);
      return;
    }
    if (waiting.length >= waitingMax) throw tooMany(busyRetryMs);
    await new Promise<void>((resolve) => waiting.push(resolve));
  }

  #endTurn(caller: string): void {
    const next = this.#waiting.get(caller)?.shift();
    if (next === undefined) this.#waiting.delete(caller);
    else next();
  }

  /** Waits for `delayMs`. If the client leaves before its end, calls `giveUp` and rejects. */
  async #delay(signal: AbortFlag | null, giveUp: () => void): Promise<void> {
    await pause(this.#clock, delayMs, signal ?? undefined);
    if (!signal?.aborted) return;
    giveUp();
    throw errorOfEnd(signal.reason);
  }
}

function tooMany(retryAfterMs: number): ServiceError {
  const sentence = "Too many attempts to sign in. Try again in a minute.";
  return new ServiceError("rate_limit_exceeded", sentence, { retryAfterMs });
}
