import type { AbortFlag } from "../../lib/abort-source.js";
import { sha256Hex } from "../../lib/crypto.js";
import type { Audit } from "../access/audit.js";
import { type CallContext, errorOfEnd } from "../call/call-context.js";
import { accountOf, checkAccountName, type Principal, sessionIdOf } from "../call/principal.js";
import {
  checkOneOf,
  type PageRequest,
  refuse,
  ServiceError,
  toPageToken,
  toServiceError,
  toStorePage,
} from "../call/service-error.js";
import { type Delivery, type DeliveryState, deliveryStates } from "./delivery.js";
import type { DeliveryFilter, DeliveryQueue, ReplayRequest, RetryOutcome } from "./delivery-queue.js";
import { checkEventType, type EndpointStore, isEndpointId } from "./endpoint-store.js";

interface DeliveriesDeps {
  readonly queue: Pick<DeliveryQueue, "find" | "payload" | "list" | "retryNow" | "replay">;
  readonly endpoints: Pick<EndpointStore, "find">;
  readonly audit: Pick<Audit, "record">;
  /** Store time. */
  readonly now: () => number;
}

/** The caller and its abort signal. */
export type DeliveryCaller = Pick<CallContext, "principal" | "address" | "signal">;

interface RetryOrder {
  readonly id: string;
  /** Restarts the schedule of retries of a permanently failed delivery. If false, a failure of the new attempt is final. */
  readonly restartSchedule: boolean;
  /** Allows a delivered delivery to be sent again, which is otherwise rejected. */
  readonly resendDelivered: boolean;
}

/**
 * Selection of a replay. An empty `account` means the caller's own account, a null `toMs` the current time. An empty
 * `replayId` is derived from the selection.
 */
export interface ReplayInput
  extends Pick<DeliveryListInput, "account" | "endpointId" | "fromMs" | "toMs" | "replayId"> {
  readonly includeDelivered: boolean;
  readonly restartSchedule: boolean;
}

const idForm = /^dlv_[0-9a-f]{32}$/;
/** Form of all page cursors; each state driver has its own format within it. */
const cursorForm = /^[\x21-\x7e]{1,256}$/;

/** Delivery log and redelivery, for the administrator. Rejects with ServiceError. */
export class Deliveries {
  readonly #deps: DeliveriesDeps;

  constructor(deps: DeliveriesDeps) {
    this.#deps = deps;
  }

  /** Newest first; `nextPageToken` is empty on the last page. */
  async list(question: DeliveryListInput & PageRequest) {
    const page = toStorePage(question, (text) => cursorForm.test(text));
    const { deliveries, next } = await this.#deps.queue.list(checkDeliveryFilter(question), page);
    return { deliveries, nextPageToken: toPageToken(next) };
  }

  /** A delivery and the body of its event, which is null after the payload was purged. */
  async get(id: string): Promise<{ readonly delivery: Delivery; readonly payload: string | null }> {
    const delivery = await this.#find(id);
    return { delivery, payload: await this.#deps.queue.payload(id) };
  }

  /**
   * Attempts a delivery now; a pending retry is used up (WH-46, WH-47). Rejects with `conflict` while an attempt is in
   * progress, for a delivered delivery (without `resendDelivered`) and for a disabled endpoint, and with `gone` after the
   * payload was purged.
   */
  async retry({ id, restartSchedule, resendDelivered }: RetryOrder, caller: DeliveryCaller): Promise<Delivery> {
    const { queue, audit } = this.#deps;
    const { account, endpointId } = await this.#find(id);
    const outcome = await queue.retryNow({
      account,
      deliveryId: id,
      by: byOf(caller.principal),
      restart: restartSchedule,
      again: resendDelivered,
    });
    if (outcome !== "queued") throw retryRefusal(outcome);
    const details = { account, endpoint_id: endpointId, restart_schedule: String(restartSchedule) };
    await audit.record(caller, "delivery.retry", id, details);
    return await this.#find(id);
  }

  /** Queues all matching deliveries again and returns the progress. Idempotent (WH-48). */
  async replay(wish: ReplayInput, caller: DeliveryCaller) {
    const order = this.#orderOf(wish, caller);
    await this.#requireEnabled(order);
    const progress: ReplayProgress = { queued: 0, waiting: 0, delivered: 0, failed: 0 };
    try {
      await runReplay(this.#deps.queue, order, progress, caller.signal);
    } catch (error) {
      await this.#recordReplay(order, progress, caller, toServiceError(error).code);
      throw error;
    }
    await this.#recordReplay(order, progress, caller, "ok");
    return { replayId: order.replayId, toMs: order.toMs, progress };
  }

  async #find(id: string): Promise<Delivery> {
    const delivery = idForm.test(id) ? await this.#deps.queue.find(id) : null;
    if (delivery === null) throw retryRefusal("unknown");
    return delivery;
  }

  #orderOf(wish: ReplayInput, { principal }: DeliveryCaller): ReplayOrder {
    if (wish.fromMs === null) {
      return refuse("missing_required_parameter", "created_from", "'created_from' is required.");
    }
    const fromMs = checkInstant(wish.fromMs, "created_from");
    const toMs = checkInstant(wish.toMs ?? this.#deps.now(), "created_before");
    if (toMs <= fromMs) {
      refuse("invalid_value", "created_before", "'created_before' must be later than 'created_from'.");
    }
    const order = {
      account: accountOf(principal, wish.account),
      endpointId: checkEndpointId(wish.endpointId),
      fromMs,
      toMs,
      which: wish.includeDelivered ? "all" : "failed",
      restart: wish.restartSchedule,
      by: byOf(principal),
    } as const;
    return { ...order, replayId: wish.replayId === "" ? replayIdOf(order) : checkReplayId(wish.replayId) };
  }

  async #requireEnabled({ account, endpointId }: ReplayOrder): Promise<void> {
    const kept = await this.#deps.endpoints.find(account, endpointId);
    if (kept === null) {
      return refuse("not_found", "endpoint_id", "There is no webhook endpoint with this id in this account.");
    }
    if (kept.record.status === "disabled") throw retryRefusal("endpoint_disabled");
  }

  async #recordReplay(
    { account, endpointId, fromMs, toMs, replayId }: ReplayOrder,
    { queued }: ReplayProgress,
    caller: DeliveryCaller,
    result: string,
  ): Promise<void> {
    const details = {
      account,
      replay_id: replayId,
      created_from: new Date(fromMs).toISOString(),
      created_before: new Date(toMs).toISOString(),
      queued: String(queued),
    };
    await this.#deps.audit.record(caller, "delivery.replay", endpointId, details, result);
  }
}

/** The requester as stored with an attempt. */
function byOf(principal: Principal): string {
  const sessionId = sessionIdOf(principal);
  return sessionId === null ? "admin_token" : `session:${sessionId}`;
}

/** Error for a rejected redelivery, with the remedy. */
function retryRefusal(outcome: Exclude<RetryOutcome, "queued">): ServiceError {
  switch (outcome) {
    case "in_flight":
      return new ServiceError("conflict", "An attempt of this delivery is in progress. Try again in a few seconds.");
    case "delivered":
      return new ServiceError("conflict", "It was delivered. Set 'resend_delivered' to true to send it again.", {
        param: "resend_delivered",
        shouldRetry: false,
      });
    case "purged":
      return new ServiceError(
        "gone",
        "The payload was removed (24 hours after delivery, 30 days after failure), so it cannot be sent again.",
        { param: "id" },
      );
    case "endpoint_disabled":
      return new ServiceError(
        "conflict",
        "The webhook endpoint is disabled: enable it with UpdateWebhookEndpoint first.",
        {
          shouldRetry: false,
        },
      );
    case "endpoint_deleted":
      return new ServiceError("conflict", "The webhook endpoint was deleted. A new endpoint gets only later events.", {
        shouldRetry: false,
      });
    case "unknown":
      return new ServiceError("not_found", "There is no delivery with this id.", { param: "id" });
  }
}

/** Selection of deliveries to send again. */
type ReplayOrder = Omit<ReplayRequest, "after" | "max" | "firstInMs" | "spacingMs">;

/** Progress of a replay. */
interface ReplayProgress {
  /** Queued by this call. */
  queued: number;
  /** Still pending in this replay, including those of this call. */
  waiting: number;
  delivered: number;
  failed: number;
}

/** Maximum deliveries queued per call, and their rate per second. */
const queuedMax = 10_000;
const duePerS = 50;
/** Deliveries per step of the store. */
const stepMax = 500;
const spacingMs = 1_000 / duePerS;

/**
 * Queues the selected deliveries and updates `progress` with each step (WH-48). New deliveries are due after the deliveries
 * of earlier calls that still wait. Rejects when the signal aborts; deliveries already queued stay queued, and a repeated
 * call continues after them.
 */
async function runReplay(
  queue: Pick<DeliveryQueue, "replay">,
  order: ReplayOrder,
  progress: ReplayProgress,
  signal: AbortFlag,
): Promise<void> {
  let after: string | null = null;
  do {
    if (signal.aborted) throw errorOfEnd(signal.reason);
    const max = Math.min(stepMax, queuedMax - progress.queued);
    const firstInMs = progress.waiting * spacingMs;
    const step = await queue.replay({ ...order, after, max, firstInMs, spacingMs });
    progress.queued += step.queued;
    progress.waiting += step.queued + step.waiting;
    progress.delivered += step.delivered;
    progress.failed += step.failed;
    after = step.next;
  } while (after !== null && progress.queued < queuedMax);
}

/**
 * Default id of a replay. It is derived from the selection without `toMs`, which is the current time, and so different for
 * each call, if the caller sets no end.
 */
function replayIdOf({ account, endpointId, fromMs, which, restart }: Omit<ReplayOrder, "replayId">): string {
  return `rpl_${sha256Hex(JSON.stringify([account, endpointId, fromMs, which, restart])).slice(0, 32)}`;
}

/** Filter of a list. Empty and null do not filter. */
interface DeliveryListInput {
  readonly account: string;
  readonly state: string;
  readonly endpointId: string;
  readonly eventType: string;
  /** Created at this time or later. */
  readonly fromMs: number | null;
  /** Created before this time. */
  readonly toMs: number | null;
  readonly replayId: string;
}

/** The latest valid Date. */
const instantMax = 8.64e15;
const replayIdForm = /^[A-Za-z0-9_-]{1,64}$/;

/** Throws ServiceError naming the field at fault. */
function checkDeliveryFilter(question: DeliveryListInput): DeliveryFilter {
  const { account, state, endpointId, eventType, fromMs, toMs, replayId } = question;
  return {
    account: account === "" ? null : checkAccountName(account),
    state: state === "" ? null : checkState(state),
    endpointId: endpointId === "" ? null : checkEndpointId(endpointId),
    eventType: eventType === "" ? null : checkEventType(eventType, "event_type"),
    fromMs: checkInstant(fromMs, "created_from"),
    toMs: checkInstant(toMs, "created_before"),
    replayId: replayId === "" ? null : checkReplayId(replayId),
  };
}

/** Checks a time; one before 1970 becomes 1970. Throws ServiceError. */
function checkInstant<T extends number | null>(atMs: T, param: string): T | number {
  if (atMs === null) return atMs;
  if (Number.isSafeInteger(atMs) && Math.abs(atMs) <= instantMax) return Math.max(0, atMs);
  return refuse("invalid_value", param, `'${param}' must be a time.`);
}

/** Throws ServiceError for a malformed endpoint id. */
function checkEndpointId(id: string): string {
  if (isEndpointId(id)) return id;
  return refuse("invalid_value", "endpoint_id", "'endpoint_id' must be the id of a webhook endpoint (we_…).");
}

/** Throws ServiceError for a malformed replay id. */
function checkReplayId(id: string): string {
  if (replayIdForm.test(id)) return id;
  return refuse("invalid_value", "replay_id", "'replay_id' must be 1 to 64 of a-z, A-Z, 0-9, _ and -.");
}

function checkState(state: string): DeliveryState {
  checkOneOf(state, "state", deliveryStates);
  return state as DeliveryState;
}
