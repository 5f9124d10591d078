import type { Clock } from "../call/ports.js";
import { type Health, type Rank, rank } from "./pick.js";
import { SlidingCount } from "./sliding-count.js";

const failuresInRowMax = 5;
/** Share of failures within 10 s that ejects, from this number of requests on. */
const failureShareMax = 0.5;
const failureShareRequestsMin = 20;
const ejectionMinMs = 10_000;
const ejectionMaxMs = 300_000;
/**
 * A probe that has no result after this time is ignored, and another request may probe. It equals the default timeout of a
 * first byte.
 */
const probeMaxMs = 60_000;
const slowStartMs = 10_000;
const slowStartShare = 0.1;
/**
 * Share of the weight that counts for a suspect. An upstream that fails immediately has no load and would otherwise receive
 * every request.
 */
const suspectShare = 0.1;
/**
 * If a model has at least this number of deployments, a single failure makes a deployment a suspect until its next success.
 * A process sends few requests to each of them, so that 5 failures in a row take half a minute; during it, a failing third
 * of 1,000 deployments would receive a third of the requests.
 */
const suspectAfterOneFrom = 16;
const coolDefaultMs = 1_000;
const coolMaxMs = 300_000;
const heldReason = "The upstream rejected or limited every key that is configured for it.";
/** First tokens that take too long for this time make the deployment slow; then only this share of its weight counts. */
const slowAfterMs = 10_000;
const slowShare = 0.5;
/** Weight of the newest time to first token in the moving average. */
const firstTokenWeight = 0.2;

/** Decisions that depend on all deployments of a model. */
export interface EjectionPeers {
  readonly size: number;
  /** Whether one more may be ejected. */
  readonly mayEject: boolean;
  /** An average time to first token of this or more is slow; infinite while there is no other deployment to compare with. */
  readonly slowFirstTokenMs: number;
}

/** State of a deployment as shown by `/debug/state`. */
export interface EjectionState {
  readonly state: "ready" | "ejected" | "cooling";
  /** Reason for the state; null if there is no problem. */
  readonly reason: string | null;
  /** Wall-clock milliseconds; null when no time is set, as while a probe is due or running. */
  readonly untilMs: number | null;
}

/**
 * Outlier ejection of one deployment (REL-9): 5 failures in a row, or half of at least 20 requests within 10 s, eject
 * it for 10 s. Then one request probes it: a success returns it with a slow start over 10 s, a failure ejects it for
 * twice as long, up to 5 minutes. The time starts at 10 s again once the deployment has been in use for as long as
 * its last ejection lasted. In models of 16 deployments or more a tenth of the share counts from the first failure on.
 *
 * `begin` returns the number of an attempt for `succeeded`, `failed` and `ended`. Results of attempts that began before
 * the last ejection or probe are ignored.
 */
export class Ejection implements Health {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #peers: EjectionPeers;
  readonly #onChange: (state: EjectionState) => void;
  readonly #heldForMs: () => number;
  readonly #successes = new SlidingCount();
  readonly #failures = new SlidingCount();
  #failuresInRow = 0;
  #attempt = 0;
  #isEjected = false;
  #isSpared = false;
  #reason = "";
  #untilMs = 0;
  /** Length of the last ejection; 0 before the first. */
  #lengthMs = 0;
  #returnedAtMs = 0;
  #isStartingSlowly = false;
  #probedAtMs: number | null = null;
  /** Whether the last health check since the first ejection in a row failed. */
  #wasUnreachable = false;
  #coolUntilMs: number | null = null;
  #coolReason = "";
  #slowSinceMs: number | null = null;
  #isSlow = false;
  /** Moving average of the time to first token; null before the first. */
  firstTokenMs: number | null = null;

  /** EjectionGroup.add describes `onChange` and `heldForMs`. */
  constructor(
    clock: Pick<Clock, "now" | "monotonic">,
    peers: EjectionPeers,
    onChange: (state: EjectionState) => void,
    heldForMs: () => number,
  ) {
    this.#clock = clock;
    this.#peers = peers;
    this.#onChange = onChange;
    this.#heldForMs = heldForMs;
  }

  /**
   * Whether the deployment failed and no probe has succeeded since. Also true while it stays in use because too many others
   * are ejected.
   */
  get isEjected(): boolean {
    return this.#isEjected;
  }

  /** Whether it counts against the maximum share of ejected deployments. */
  get countsAsEjected(): boolean {
    return this.#isEjected && !this.#isSpared;
  }

  /** A deployment whose probe is due is good, so that the next request probes it. */
  get rank(): Rank {
    if (this.#isCooling) return rank.cooling;
    if (!this.#isEjected || this.#isProbeDue) return rank.good;
    return this.#isSpared ? rank.suspect : rank.ejected;
  }

  get share(): number {
    if (this.#isEjected) return this.#isSpared && !this.#isProbeDue ? suspectShare : 1;
    const share = (this.#isSlow ? slowShare : 1) * (this.#hasJustFailed ? suspectShare : 1);
    if (!this.#isStartingSlowly) return share;
    const started = (this.#clock.monotonic() - this.#returnedAtMs) / slowStartMs;
    if (started >= 1) this.#isStartingSlowly = false;
    return share * Math.min(1, slowStartShare + (1 - slowStartShare) * started);
  }

  get state(): EjectionState {
    if (this.#isCooling) {
      const heldUntilMs = this.#clock.monotonic() + this.#heldForMs();
      const isHeld = heldUntilMs > (this.#coolUntilMs ?? 0);
      const reason = isHeld ? heldReason : this.#coolReason;
      return { state: "cooling", reason, untilMs: this.#wallMs(isHeld ? heldUntilMs : this.#coolUntilMs) };
    }
    if (this.#isEjected && !this.#isSpared) {
      const isWaiting = this.#clock.monotonic() < this.#untilMs;
      return { state: "ejected", reason: this.#reason, untilMs: isWaiting ? this.#wallMs(this.#untilMs) : null };
    }
    return { state: "ready", reason: this.#reasonInUse(), untilMs: null };
  }

  /** Call when a request is given to the deployment. The first request after an ejection has ended becomes the probe. */
  begin(): number {
    if (this.#isEjected && this.#isProbeDue) {
      this.#probedAtMs = this.#clock.monotonic();
      this.#attempt += 1;
    }
    return this.#attempt;
  }

  /**
   * The deployment answered; call at the first content. `firstTokenMs` is the time from the slot to the first content, null
   * if there was none. Errors that the caller caused count as successes.
   */
  succeeded(attempt: number, firstTokenMs: number | null): void {
    if (attempt !== this.#attempt || this.#isAlone) return;
    const nowMs = this.#clock.monotonic();
    this.#failuresInRow = 0;
    if (this.#isEjected) this.#return(nowMs);
    this.#successes.add(nowMs);
    if (firstTokenMs !== null) this.#compareFirstToken(nowMs, firstTokenMs);
  }

  /** The deployment failed. `reason` is shown to the operator. A 429 is not a failure: see `cool`. */
  failed(attempt: number, reason: string): void {
    if (attempt !== this.#attempt || this.#isAlone) return;
    const nowMs = this.#clock.monotonic();
    this.#failuresInRow += 1;
    this.#failures.add(nowMs);
    if (!this.#isEjected) {
      const why = this.#whyEject(nowMs);
      if (why !== null) this.#eject(nowMs, `${why}; the last one: ${reason}`);
    } else if (this.#probedAtMs !== null) this.#eject(nowMs, `The probe failed: ${reason}`);
    else if (this.#isSpared && this.#peers.mayEject) this.#isSpared = false;
  }

  /**
   * The request ended without a result, for example because its client disconnected. If it was the probe, another request
   * may probe.
   */
  ended(attempt: number): void {
    if (attempt === this.#attempt) this.#probedAtMs = null;
  }

  /**
   * Pauses the deployment for `waitMs`, the time of a Retry-After, but at most 5 min; null: 1 s. A pause that already lasts
   * longer stays.
   */
  cool(waitMs: number | null, reason: string): void {
    const untilMs = this.#clock.monotonic() + Math.min(coolMaxMs, waitMs ?? coolDefaultMs);
    if (this.#isCooling && untilMs <= (this.#coolUntilMs ?? 0)) return;
    this.#coolUntilMs = untilMs;
    this.#coolReason = reason;
    this.#onChange(this.state);
  }

  /**
   * Result of a health check that costs nothing. When an ejected deployment becomes reachable again, its probe is due
   * immediately, even while an earlier probe has no result. A deployment that was always reachable fails for other reasons,
   * so its ejection is not shortened.
   */
  checked(isReachable: boolean): void {
    if (!this.#isEjected) return;
    if (isReachable && this.#wasUnreachable) {
      this.#untilMs = Math.min(this.#untilMs, this.#clock.monotonic());
      this.#probedAtMs = null;
    }
    this.#wasUnreachable = !isReachable;
  }

  /** Whether it is the only deployment of its model. It is never ejected, so no results are counted. */
  get #isAlone(): boolean {
    return this.#peers.size < 2 && !this.#isEjected;
  }

  get #hasJustFailed(): boolean {
    return this.#failuresInRow > 0 && this.#peers.size >= suspectAfterOneFrom;
  }

  get #isCooling(): boolean {
    if (this.#coolUntilMs !== null) {
      if (this.#clock.monotonic() < this.#coolUntilMs) return true;
      this.#coolUntilMs = null;
    }
    return this.#heldForMs() > 0;
  }

  get #isProbeDue(): boolean {
    const nowMs = this.#clock.monotonic();
    return nowMs >= this.#untilMs && (this.#probedAtMs === null || nowMs - this.#probedAtMs >= probeMaxMs);
  }

  #whyEject(nowMs: number): string | null {
    if (this.#failuresInRow >= failuresInRowMax) return `${this.#failuresInRow} requests failed in a row`;
    const failures = this.#failures.total(nowMs);
    const requests = failures + this.#successes.total(nowMs);
    if (requests < failureShareRequestsMin || failures < failureShareMax * requests) return null;
    return `${failures} of ${requests} requests failed within 10 s`;
  }

  #eject(nowMs: number, reason: string): void {
    const isHealthyAgain = !this.#isEjected && nowMs - this.#returnedAtMs >= this.#lengthMs;
    const isFirst = this.#lengthMs === 0 || isHealthyAgain;
    this.#lengthMs = isFirst ? ejectionMinMs : Math.min(ejectionMaxMs, 2 * this.#lengthMs);
    if (!this.#isEjected) {
      this.#isSpared = !this.#peers.mayEject;
      this.#wasUnreachable = false;
    } else if (this.#isSpared && this.#peers.mayEject) this.#isSpared = false;
    this.#isEjected = true;
    this.#reason = reason;
    this.#untilMs = nowMs + this.#lengthMs;
    this.#probedAtMs = null;
    this.#attempt += 1;
    this.#onChange(this.state);
  }

  #return(nowMs: number): void {
    this.#isEjected = false;
    this.#isSpared = false;
    this.#probedAtMs = null;
    this.#returnedAtMs = nowMs;
    this.#isStartingSlowly = true;
    this.#successes.clear();
    this.#failures.clear();
    this.#onChange(this.state);
  }

  #compareFirstToken(nowMs: number, firstTokenMs: number): void {
    const meanMs = this.firstTokenMs ?? firstTokenMs;
    this.firstTokenMs = meanMs + firstTokenWeight * (firstTokenMs - meanMs);
    if (this.firstTokenMs < this.#peers.slowFirstTokenMs) {
      this.#slowSinceMs = null;
      this.#isSlow = false;
      return;
    }
    this.#slowSinceMs ??= nowMs;
    this.#isSlow = nowMs - this.#slowSinceMs >= slowAfterMs;
  }

  #reasonInUse(): string | null {
    if (this.#isSpared) return `${this.#reason}. It stays in use because half of the model's deployments are ejected.`;
    if (this.#hasJustFailed) return "Its last request failed; a tenth of its weight counts until one succeeds.";
    if (this.#isSlow)
      return "Its first tokens take 10 times as long as those of the others; half of its weight counts.";
    return null;
  }

  #wallMs(monotonicMs: number | null): number {
    return Math.round(this.#clock.now() + (monotonicMs ?? 0) - this.#clock.monotonic());
  }
}
