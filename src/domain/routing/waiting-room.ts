import type { ServiceLimits } from "../../contract/limits.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import type { Ejection } from "./ejection.js";
import { LoadShedding, type RoomLoad } from "./load-shedding.js";
import { type Candidate, hasFreeSlot, type PickPolicy, pick, type RoutedRequest, rank } from "./pick.js";
import { PriorityQueue, type RoutedOwner } from "./priority-queue.js";

/** A deployment whose load is counted by the slots that its waiting room grants. */
export interface RoutedDeployment extends Candidate {
  outstandingRequests: number;
  outstandingTokens: number;
  readonly ejection: Ejection;
}

export interface WaitingRoomOptions<D> {
  /** The loaded deployments of the model. */
  readonly deployments: readonly D[];
  /** Requests that may wait. 0 or more. */
  readonly waitingMax: number;
  /** Maximum wait, read when a wait begins. */
  readonly limits: Pick<ServiceLimits, "queueWaitMs">;
  readonly policy: PickPolicy;
}

interface Waiter<D> {
  readonly request: RoutedRequest<D>;
  grant(deployment: D): void;
  refuse(error: ServiceError): void;
}

const fullText = "The model's queue is full.";
const shedText = "The model gets more requests than it can serve, and the requests of this key already wait too long.";
/** Weight of the newest duration in the moving average of slot use. */
const holdWeight = 0.1;

/**
 * Grants the slots of all deployments of a model by the priority of the key, and fairly between accounts and between the
 * keys of an account (REL-5). A request waits for the first free slot of any deployment that it may use. If the maximum
 * number of requests already waits, a new one is rejected immediately, unless its key has few waiting requests: then the
 * newest waiting request of a lower priority, or of the key with the most waiting requests, is dropped for it. A permanent
 * queue is kept short by LoadShedding.
 */
export class WaitingRoom<D extends RoutedDeployment> {
  readonly #clock: Clock;
  readonly #options: WaitingRoomOptions<D>;
  readonly #waiting = new PriorityQueue<Waiter<D>>();
  /** The waiting requests that already have failed tries. */
  readonly #retries = new Set<Waiter<D>>();
  #deployments: readonly D[];
  /** Slots in use. */
  busy = 0;
  /** Slots granted so far. */
  granted = 0;
  #meanHoldMs = 1_000;
  readonly #shedding = new LoadShedding();

  constructor(clock: Clock, options: WaitingRoomOptions<D>) {
    this.#clock = clock;
    this.#options = options;
    this.#deployments = options.deployments;
  }

  get deployments(): readonly D[] {
    return this.#deployments;
  }

  /** Replaces the deployments. Slots of removed ones stay valid until they are released. */
  set deployments(deployments: readonly D[]) {
    this.#deployments = deployments;
    this.#dispatch();
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Number of slots of the deployments that are neither ejected nor paused; of all deployments if there are none. */
  get slots(): number {
    let reliable = 0;
    let all = 0;
    for (const { slots, ejection } of this.#deployments) {
      all += slots;
      if (ejection.rank <= rank.suspect) reliable += slots;
    }
    return reliable === 0 ? all : reliable;
  }

  /** Whether a deployment is left that the request may try, with or without a free slot. */
  hasChoice(request: RoutedRequest<D>): boolean {
    return pick(this.#deployments, request, this.#options.policy, false) !== null;
  }

  /** A free slot if no request waits for one; null otherwise. */
  tryAcquire(request: RoutedRequest<D>): Slot<D> | null {
    return this.waiting > 0 ? null : this.#takeFree(request);
  }

  /**
   * Waits for a slot. Rejects with `server_is_overloaded` when the room is full or the wait too long, with the error of the
   * last try when all deployments that it has not tried are ejected while it waits, and with the call's own error when the
   * signal aborts. `continuing` marks a further prompt of a running request: it queues like others but is never rejected for
   * a full room or a long wait.
   */
  acquire(request: RoutedRequest<D>, signal: AbortFlag, continuing = false): Promise<Slot<D>> {
    if (signal.aborted) return Promise.reject(errorOfEnd(signal.reason));
    // Waiting requests are offered every free slot first. A slot that is still free may be used by this request.
    this.#dispatch();
    const free = this.#takeFree(request);
    if (free !== null) return Promise.resolve(free);
    if (!continuing) {
      // A retry is not shed, because the request has already waited.
      if (request.failure === null && this.#isShedding(request.owner))
        return Promise.reject(this.#overloaded(shedText));
      if (this.#isFull && !this.#makeRoomFor(request)) return Promise.reject(this.#overloaded(fullText));
    }
    return this.#wait(request, signal, continuing);
  }

  /** Whether a new request of the key `owner` would be rejected now. */
  isRejecting(owner: RoutedOwner): boolean {
    if (this.waiting === 0 && !this.#isFull) return false;
    if (this.#deployments.length === 0 || this.#deployments.some(hasFreeSlot)) return false;
    return this.#isShedding(owner) || (this.#isFull && !this.#waiting.canMakeRoomFor(owner));
  }

  /** Throws `server_is_overloaded` if a new request of the key `owner` would be rejected now. */
  throwIfRejecting(owner: RoutedOwner): void {
    if (this.isRejecting(owner)) throw this.#overloaded(this.#isShedding(owner) ? shedText : fullText);
  }

  get #isFull(): boolean {
    return this.waiting >= this.#options.waitingMax;
  }

  #isShedding(owner: RoutedOwner): boolean {
    return this.#shedding.isActive && this.#shedding.rejects(owner, this.#load(), this.#clock.monotonic());
  }

  #load(): RoomLoad {
    const { waitingMax, limits } = this.#options;
    return { slots: this.slots, meanHoldMs: this.#meanHoldMs, waitingMax, queueWaitMs: limits.queueWaitMs };
  }

  #wait(request: RoutedRequest<D>, signal: AbortFlag, continuing: boolean): Promise<Slot<D>> {
    const sinceMs = this.#clock.monotonic();
    const { queueWaitMs } = this.#options.limits;
    return new Promise((resolve, reject) => {
      const cancelTimer = continuing
        ? undefined
        : this.#clock.after(queueWaitMs, () =>
            cancel(this.#overloaded(`No slot of the model became free within ${queueWaitMs / 1000} s.`)),
          );
      const onAbort = (): void => cancel(errorOfEnd(signal.reason));
      const settled = (waitMs: number | null): void => {
        if (!continuing) this.#shedding.left(request.owner, waitMs, this.#load(), this.#clock.monotonic());
        cancelTimer?.();
        signal.removeEventListener("abort", onAbort);
        this.#retries.delete(waiter);
      };
      const waiter: Waiter<D> = {
        request,
        grant: (deployment) => {
          const waitMs = this.#clock.monotonic() - sinceMs;
          settled(waitMs);
          resolve(this.#take(deployment, request, waitMs));
        },
        refuse: (error) => {
          settled(null);
          reject(error);
        },
      };
      const cancel = (error: ServiceError): void => {
        this.#waiting.remove(request.owner, waiter);
        waiter.refuse(error);
      };
      signal.addEventListener("abort", onAbort);
      this.#waiting.add(request.owner, waiter);
      if (!continuing) this.#shedding.joined(request.owner, sinceMs);
      if (request.failure !== null) this.#retries.add(waiter);
    });
  }

  #takeFree(request: RoutedRequest<D>): Slot<D> | null {
    const deployment = pick(this.#deployments, request, this.#options.policy, true);
    return deployment === null ? null : this.#take(deployment, request, 0);
  }

  #take(deployment: D, { tokens }: RoutedRequest<D>, queueMs: number): Slot<D> {
    this.busy += 1;
    this.granted += 1;
    deployment.outstandingRequests += 1;
    deployment.outstandingTokens += tokens;
    return new Slot(this.#returned, deployment, deployment.ejection.begin(), tokens, queueMs, this.#clock.monotonic());
  }

  readonly #returned = (grantedMs: number): void => {
    this.busy -= 1;
    this.#meanHoldMs += holdWeight * (this.#clock.monotonic() - grantedMs - this.#meanHoldMs);
    this.#dispatch();
    if (this.#shedding.isActive && this.waiting === 0 && this.#deployments.some(hasFreeSlot))
      this.#shedding.idle(this.#clock.monotonic());
  };

  /** Grants free slots to waiting requests, each to the next one in fair order that may use it. */
  #dispatch(): void {
    if (this.#retries.size > 0) this.#endRetriesWithoutChoice();
    while (this.waiting > 0 && this.#deployments.some(hasFreeSlot)) {
      const offer: { deployment: D | null } = { deployment: null };
      let mayBeFree = true;
      const waiter = this.#waiting.next(({ request }) => {
        // If one unrestricted request finds no slot, no other unrestricted request does either. This keeps a long queue
        // cheap.
        const isRestricted = request.tried !== null || request.accepts !== null;
        if (!isRestricted && !mayBeFree) return false;
        offer.deployment = pick(this.#deployments, request, this.#options.policy, true);
        if (!isRestricted) mayBeFree = offer.deployment !== null;
        return offer.deployment !== null;
      });
      if (waiter === undefined || offer.deployment === null) return;
      waiter.grant(offer.deployment);
    }
  }

  #endRetriesWithoutChoice(): void {
    for (const waiter of this.#retries) {
      const { request } = waiter;
      if (request.failure === null || this.hasChoice(request)) continue;
      this.#waiting.remove(request.owner, waiter);
      waiter.refuse(request.failure);
    }
  }

  /**
   * Drops a waiting request of a lower priority, or of a key that would still have more waiting requests than the key of the
   * new request.
   */
  #makeRoomFor({ owner }: RoutedRequest<D>): boolean {
    const victim = this.#waiting.makeRoomFor(owner);
    if (victim === null) return false;
    victim.refuse(
      this.#overloaded("The model's queue is full, and other keys have a higher priority or fewer requests."),
    );
    return true;
  }

  #overloaded(why: string): ServiceError {
    const retryAfterMs = this.#shedding.retryAfterMs(this.waiting, this.#load(), this.#clock.monotonic());
    return new ServiceError("server_is_overloaded", why, { retryAfterMs });
  }
}

/** A slot of a deployment: one try of one request. */
export class Slot<D extends RoutedDeployment> {
  readonly deployment: D;
  /** Wait for the slot. */
  readonly queueMs: number;
  readonly #returned: (grantedMs: number) => void;
  readonly #attempt: number;
  readonly #grantedMs: number;
  /** Estimated tokens that the request still has to process. */
  #tokens: number;
  #isHeld = true;

  constructor(
    returned: (grantedMs: number) => void,
    deployment: D,
    attempt: number,
    tokens: number,
    queueMs: number,
    grantedMs: number,
  ) {
    this.#returned = returned;
    this.deployment = deployment;
    this.#attempt = attempt;
    this.#tokens = tokens;
    this.queueMs = queueMs;
    this.#grantedMs = grantedMs;
  }

  /**
   * Lowers the deployment's outstanding tokens: by the tokens of the prompt at the first content, then by the generated
   * tokens.
   */
  processed(tokens: number): void {
    const known = Math.min(tokens, this.#tokens);
    this.#tokens -= known;
    this.deployment.outstandingTokens -= known;
  }

  /** The deployment answered; call at the first content, or at an end without content. See `Ejection.succeeded`. */
  succeeded(firstTokenMs: number | null): void {
    this.deployment.ejection.succeeded(this.#attempt, firstTokenMs);
  }

  /** The deployment failed. */
  failed(reason: string): void {
    this.deployment.ejection.failed(this.#attempt, reason);
  }

  /** Releases the slot. Idempotent. A slot that is released without a result does not affect the deployment's health. */
  release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.processed(this.#tokens);
    this.deployment.ejection.ended(this.#attempt);
    this.deployment.outstandingRequests -= 1;
    this.#returned(this.#grantedMs);
  }
}
