import { version } from "../../contract/version.js";
import { signStandardWebhook, signWebhook } from "../../lib/webhook-signature.js";
import type { CircuitBreaker } from "../call/circuit-breaker.js";
import { type Clock, type Logger, pause } from "../call/ports.js";
import {
  type AttemptEffect,
  type AttemptEnd,
  type AttemptResult,
  type AttemptSignatures,
  isDelivered,
  type SendResult,
  type StatusClass,
  secretUnreadable,
  type WebhookObserver,
  type WebhookSender,
} from "./delivery.js";
import type { AttemptOutcome, Claim, DeliveryQueue } from "./delivery-queue.js";
import type { EndpointBook, FailingEndpoints, Receiver } from "./endpoint-book.js";

/**
 * Minimum time for which it tries to record the end of an attempt, even after the lease has expired. A process that was
 * stalled must first reconnect to the store, and its result still counts unless another worker has claimed the delivery.
 */
const recordWithinMs = 2_000;
/** Delay before the claim of a removed endpoint is released. During it the store ends the deliveries of the endpoint. */
const removedWaitMs = 100;

interface DeliveryAttemptsDeps {
  readonly queue: Pick<DeliveryQueue, "finish" | "handBack">;
  readonly book: Pick<EndpointBook, "find">;
  readonly failing: Pick<FailingEndpoints, "note">;
  readonly sender: Pick<WebhookSender, "send">;
  readonly store: Pick<StoreRetries, "retryUntil">;
  readonly clock: Clock;
  /** Store time. */
  readonly now: () => number;
  readonly log: Logger;
  readonly observer: Pick<WebhookObserver, "attemptEnded">;
  readonly settings: { readonly budgetMs: number; readonly retryDelaysMs: readonly number[] };
}

/** A finished attempt that is not recorded yet. */
interface Made {
  readonly claim: Claim;
  readonly result: AttemptResult;
  readonly outcome: AttemptOutcome;
  /** End of the attempt on the monotonic clock. */
  readonly endedAtMs: number;
}

/** Attempts claimed deliveries: one POST each, whose result is then recorded. */
export class DeliveryAttempts {
  readonly #deps: DeliveryAttemptsDeps;

  constructor(deps: DeliveryAttemptsDeps) {
    this.#deps = deps;
  }

  /**
   * `leaseEndsAtMs` (monotonic) bounds the attempt; recording its result is tried until then, or until 2 s after its end if
   * that is later. `onEnd` is called when the attempt has ended and its result is not recorded yet; it is not called if
   * nothing was sent. Never rejects.
   */
  async make(claim: Claim, leaseEndsAtMs: number, onEnd: (result: SendResult) => void): Promise<void> {
    try {
      const receiver = await this.#receiverOf(claim, leaseEndsAtMs);
      if (receiver === null) return;
      const made = await this.#send(claim, receiver);
      const noted = this.#note(made, leaseEndsAtMs);
      onEnd(made.result);
      await noted;
    } catch (err) {
      this.#deps.log.error({ err, ...namesOf(claim) }, "attempt aborted; the delivery repeats after its lease");
    }
  }

  /** Null if nothing is to be sent; the claim was released. */
  async #receiverOf(claim: Claim, leaseEndsAtMs: number): Promise<Receiver | null> {
    const { queue, book, store, clock, settings } = this.#deps;
    const beginsByMs = leaseEndsAtMs - settings.budgetMs;
    const found = await store.retryUntil(beginsByMs, () => book.find(claim.account, claim.endpointId));
    const receiver = found?.value ?? null;
    if (receiver?.record.status === "enabled" && clock.monotonic() <= beginsByMs) return receiver;
    if (found !== null) await pause(clock, removedWaitMs);
    await store.retryUntil(leaseEndsAtMs, () => queue.handBack([claim]));
    return null;
  }

  async #send(claim: Claim, { record, secretsAt }: Receiver): Promise<Made> {
    const { sender, clock, now, settings } = this.#deps;
    const { account, body } = claim;
    const startedAtMs = Math.floor(now());
    const secrets = secretsAt(startedAtMs);
    let sent: Omit<AttemptResult, "startedAtMs"> = secretUnreadable;
    if (secrets !== null) {
      const signatures = signaturesOf({ ...claim, secrets, atMs: clock.now() });
      const headers = attemptHeaders(claim, signatures);
      const answer = await sender.send({ account, url: record.url, headers, body, budgetMs: settings.budgetMs });
      sent = { ...answer, signatures };
    }
    const endedAtMs = clock.monotonic();
    const result = { ...sent, startedAtMs };
    return { claim, result, outcome: outcomeOf(claim, result, settings.retryDelaysMs), endedAtMs };
  }

  /** Records the result, then updates metrics, log and endpoint health. */
  async #note(made: Made, leaseEndsAtMs: number): Promise<void> {
    const { queue, failing, store, clock } = this.#deps;
    const { claim, result, outcome, endedAtMs } = made;
    const noted = await store.retryUntil(Math.max(leaseEndsAtMs, endedAtMs + recordWithinMs), () =>
      queue.finish({ claim, result, outcome: shortenDelay(outcome, clock.monotonic() - endedAtMs) }),
    );
    if (noted === null) return this.#report(made, "unrecorded");
    // A null value of a repeated call within the lease means that an earlier call succeeded and only its answer was lost.
    const isOvertaken = noted.isFirst || endedAtMs > leaseEndsAtMs;
    if (noted.value === null) return this.#report(made, isOvertaken ? "lease_lost" : outcome.state);
    this.#report(made, outcome.state);
    await failing.note(claim, noted.value);
  }

  #report({ claim, result, outcome }: Made, effect: AttemptEffect): void {
    const { observer, log } = this.#deps;
    const { status, error, latencyMs, startedAtMs } = result;
    const latenessMs = Math.max(0, startedAtMs - claim.dueAtMs);
    observer.attemptEnded({ effect, answer: answerOf(result), durationMs: latencyMs, latenessMs });
    const fields = { ...namesOf(claim), attempt: claim.attemptNumber, status, error, latency_ms: latencyMs };
    if (effect === "unrecorded") log.warn(fields, "attempt could not be recorded; the delivery repeats");
    else if (effect === "lease_lost") log.warn(fields, "attempt outlasted its lease and was discarded");
    else if (outcome.state === "permanently_failed")
      log.warn({ ...fields, reason: outcome.reason }, "delivery failed permanently");
    else log.debug(fields, outcome.state === "delivered" ? "event delivered" : "delivery attempt failed");
  }
}

function namesOf({ deliveryId, endpointId, eventId, account }: Claim): object {
  return { delivery: deliveryId, endpoint: endpointId, event: eventId, account };
}

function answerOf({ status, error }: AttemptResult): AttemptEnd["answer"] {
  if (status !== null && status >= 100 && status <= 599) return `${Math.floor(status / 100)}xx` as StatusClass;
  return error ?? "bad_response";
}

/**
 * The next state after an attempt (WH-19, WH-25, WH-27, WH-46): a status of 200 to 299 delivers, anything else fails.
 * `delaysMs` are the waits before each retry. A failure after the last retry, or of a single attempt, is final.
 */
export function outcomeOf(
  { retriesUsed, isSingle }: Pick<Claim, "retriesUsed" | "isSingle">,
  result: Pick<AttemptResult, "status">,
  delaysMs: readonly number[],
): AttemptOutcome {
  if (isDelivered(result)) return { state: "delivered" };
  if (isSingle) return { state: "permanently_failed", reason: "manual_retry_failed" };
  const delayMs = delaysMs[retriesUsed];
  if (delayMs === undefined) return { state: "permanently_failed", reason: "retries_used_up" };
  return { state: "awaiting_retry", delayMs };
}

/** Shortens the retry delay by `lateMs`, the time since the attempt's end, so that retries count from the failure. */
export function shortenDelay(outcome: AttemptOutcome, lateMs: number): AttemptOutcome {
  if (outcome.state !== "awaiting_retry") return outcome;
  // The delay is rounded up, so that a retry is never early (WH-26).
  return { ...outcome, delayMs: Math.max(0, outcome.delayMs - Math.floor(lateMs)) };
}

interface SignedFacts extends Pick<Claim, "eventId" | "body"> {
  /** Decrypted signing secrets, newest first. Not empty. */
  readonly secrets: readonly string[];
  /** Start of the attempt. */
  readonly atMs: number;
}

/** Signatures of an attempt, which contain its time (WH-15, WH-18). */
export function signaturesOf({ secrets, eventId, body, atMs }: SignedFacts): AttemptSignatures {
  const timestampS = Math.floor(atMs / 1_000);
  return [signWebhook({ secrets, timestampS, body }), signStandardWebhook({ secrets, id: eventId, timestampS, body })];
}

type AttemptIds = Pick<Claim, "eventId" | "deliveryId" | "attemptNumber">;

/** All headers of an attempt except `Host`, `Content-Length` and others that the HTTP client adds. */
export function attemptHeaders(ids: AttemptIds, signatures: AttemptSignatures): Readonly<Record<string, string>> {
  return { "user-agent": `UnifiedInference/${version}`, ...recordedHeaders(ids, signatures) };
}

/** The headers of a stored attempt that do not depend on the version of the service that sent it: its signatures and ids. */
export function recordedHeaders(
  { eventId, deliveryId, attemptNumber }: AttemptIds,
  [service, standard]: AttemptSignatures,
): Readonly<Record<string, string>> {
  return {
    "content-type": "application/json",
    "service-signature": service,
    "service-delivery-id": deliveryId,
    "service-attempt": String(attemptNumber),
    "webhook-id": eventId,
    "webhook-timestamp": /^t=(\d+)/.exec(service)?.[1] ?? "",
    "webhook-signature": standard,
  };
}

/**
 * First and maximum backoff between tries; it doubles each time. The store is used again at most a second after its
 * recovery.
 */
const firstWaitMs = 100;
const lastWaitMs = 1_000;

/** Backoff after `failures` consecutive failures, 1 or more. */
export function waitAfter(failures: number): number {
  return Math.min(lastWaitMs, firstWaitMs * 2 ** Math.min(failures - 1, 10));
}

interface Answered<T> {
  readonly value: T;
  /** False when an earlier try may already have taken effect. */
  readonly isFirst: boolean;
}

/** Retries store calls during an outage, with exponential backoff. The breaker logs the outage once. */
export class StoreRetries {
  readonly #clock: Clock;
  readonly #breaker: CircuitBreaker;
  #hasEnded = false;

  constructor(clock: Clock, breaker: CircuitBreaker) {
    this.#clock = clock;
    this.#breaker = breaker;
  }

  /** Stops all retries. */
  end(): void {
    this.#hasEnded = true;
  }

  /** Calls the store at least once. Null if it has not answered by `untilMs` (monotonic). Never rejects. */
  async retryUntil<T>(untilMs: number, call: () => Promise<T>): Promise<Answered<T> | null> {
    for (let tries = 1; ; tries += 1) {
      try {
        const value = await call();
        this.#breaker.succeeded();
        return { value, isFirst: tries === 1 };
      } catch (cause) {
        this.#breaker.failed(cause);
      }
      const waitMs = waitAfter(tries);
      if (this.#hasEnded || this.#clock.monotonic() + waitMs >= untilMs) return null;
      await pause(this.#clock, waitMs);
      if (this.#hasEnded) return null;
    }
  }
}
