import type { Clock } from "../../domain/call/ports.js";
import type { EventDraft } from "../../domain/events/event.js";
import { type Delivery, type DeliveryFailure, deliveryId } from "../../domain/webhooks/delivery.js";
import type {
  Claim,
  Claimed,
  ClaimOptions,
  DeliveryFilter,
  DeliveryQueue,
  EndpointBacklog,
  FinishRequest,
  ReplayRequest,
  ReplayStep,
  RetryOutcome,
  RetryRequest,
} from "../../domain/webhooks/delivery-queue.js";
import type { EndpointHealth, EndpointRecord } from "../../domain/webhooks/endpoint-store.js";
import { claimOf, type DeliveryEntry, isEnded, newEntry, noteAttempt, shownDelivery } from "./delivery-entry.js";
import { DeliveryLeases } from "./delivery-leases.js";
import { DeliveryLog, matches } from "./delivery-log.js";
import { DeliveryTurns, type Standing } from "./delivery-turns.js";
import { EndedDeliveries } from "./ended-deliveries.js";
import { EndpointLine } from "./endpoint-line.js";
import type { VolatileEndpointStore } from "./volatile-endpoint-store.js";

const deliveriesMax = 100_000;
/** Dropped at a time when there are more. */
const droppedAtOnce = deliveriesMax / 10;
/** Deliveries to closed endpoints that one claim ends. */
const closedAtOnce = 500;
const backlogMax = 1_000;

export interface VolatileDeliveryQueueParts {
  readonly clock: Clock;
  readonly endpoints: Pick<VolatileEndpointStore, "get" | "noteAttempt">;
  readonly openDeliveriesMax: number;
  readonly deliveredKeptMax: number;
}

/** Deliveries in memory. Beyond 100,000 those that ended first are dropped, and the oldest where none has ended. */
export class VolatileDeliveryQueue implements DeliveryQueue {
  readonly #clock: Clock;
  readonly #endpoints: VolatileDeliveryQueueParts["endpoints"];
  readonly #openMax: number;
  readonly #log = new DeliveryLog();
  readonly #lines = new Map<string, EndpointLine>();
  readonly #turns = new DeliveryTurns((line) => this.#standingOf(line.endpointId));
  readonly #leases = new DeliveryLeases();
  readonly #ended: EndedDeliveries;
  /** Of each account that has some. */
  readonly #open = new Map<string, number>();
  readonly #listeners = new Set<() => void>();
  #made = 0;

  constructor({ clock, endpoints, openDeliveriesMax, deliveredKeptMax }: VolatileDeliveryQueueParts) {
    this.#clock = clock;
    this.#endpoints = endpoints;
    this.#openMax = openDeliveriesMax;
    this.#ended = new EndedDeliveries(deliveredKeptMax);
  }

  /** One for each endpoint that has none of this event (WH-11). */
  add(event: EventDraft, endpoints: readonly EndpointRecord[], createdAtMs: number): void {
    const nowMs = this.#clock.now();
    let waiting = 0;
    for (const { id: endpointId, account } of endpoints) {
      if (this.#log.get(deliveryId(event.id, endpointId)) !== undefined) continue;
      this.#made += 1;
      const entry = newEntry({ event, account, endpointId, number: this.#made, createdAtMs, dueAtMs: nowMs });
      this.#log.add(entry);
      if (this.#addOpen(account, 1) > this.#openMax) this.#end(entry, "overflow", nowMs);
      else {
        this.#wait(entry, nowMs);
        waiting += 1;
      }
    }
    if (this.#log.size > deliveriesMax) this.#drop();
    if (waiting > 0) this.#tellDue();
  }

  /** An endpoint was changed or removed. */
  endpointChanged(endpointId: string): void {
    const line = this.#lines.get(endpointId);
    if (line === undefined) return;
    this.#turns.place(line, this.#clock.now());
    this.#tellDue();
  }

  async claim({ max, leaseMs }: ClaimOptions): Promise<Claimed> {
    const nowMs = this.#clock.now();
    this.#takeBackLost(nowMs);
    this.#endClosed(nowMs);
    const claims: Claim[] = [];
    this.#turns.each(max, nowMs, (line) => {
      const entry = line.take();
      if (entry === null) return;
      entry.fence += 1;
      line.held += 1;
      this.#leases.take(entry, nowMs + leaseMs);
      claims.push(claimOf(entry));
    });
    const nextAtMs = earlier(this.#turns.nextAtMs(nowMs), this.#leases.nextAtMs());
    return { claims, nextInMs: nextAtMs === null ? null : Math.max(0, nextAtMs - nowMs) };
  }

  async finish({ claim, result, outcome }: FinishRequest): Promise<EndpointHealth | null> {
    const entry = this.#log.get(claim.deliveryId);
    if (entry === undefined || entry.fence !== claim.fence) return null;
    const nowMs = this.#clock.now();
    this.#release(entry);
    const isRetried = outcome.state === "awaiting_retry";
    noteAttempt(entry, result, isRetried ? nowMs + outcome.delayMs : null);
    if (isRetried) {
      entry.state = "awaiting_retry";
      entry.retriesUsed += 1;
      entry.dueAtMs = nowMs + outcome.delayMs;
      this.#wait(entry, nowMs);
    } else {
      this.#end(entry, outcome.state === "permanently_failed" ? outcome.reason : null, nowMs);
    }
    return this.#endpoints.noteAttempt(entry.endpointId, outcome, nowMs);
  }

  async handBack(claims: readonly Claim[]): Promise<void> {
    const nowMs = this.#clock.now();
    for (const { deliveryId: id, fence } of claims) {
      const entry = this.#log.get(id);
      if (entry === undefined || entry.fence !== fence) continue;
      this.#release(entry);
      this.#wait(entry, nowMs);
    }
  }

  async retryNow({ account, deliveryId: id, by, restart, again }: RetryRequest): Promise<RetryOutcome> {
    const nowMs = this.#clock.now();
    this.#takeBackLost(nowMs);
    const entry = this.#log.get(id);
    if (entry?.account !== account) return "unknown";
    if (entry.leasedUntilMs !== null) return "in_flight";
    if (entry.body === null) return "purged";
    if (entry.state === "delivered" && !again) return "delivered";
    const standing = this.#standingOf(entry.endpointId);
    if (!standing.isOpen) return standing.reason;
    if (isEnded(entry)) this.#reopen(entry, { by, restart, dueAtMs: nowMs });
    else if (entry.state === "awaiting_retry") {
      entry.trigger = "manual";
      entry.by = by;
      entry.dueAtMs = Math.min(entry.dueAtMs, nowMs);
    }
    this.#wait(entry, nowMs);
    this.#tellDue();
    return "queued";
  }

  async replay(request: ReplayRequest): Promise<ReplayStep> {
    const nowMs = this.#clock.now();
    const { replayId, max } = request;
    const step = { queued: 0, waiting: 0, delivered: 0, failed: 0 };
    let looked = 0;
    let last = positionOf(request.after) ?? 0;
    let hasMore = false;
    for (const entry of this.#log.oldest(last)) {
      if (!isInReach(entry, request)) continue;
      hasMore = looked === max;
      if (hasMore) break;
      looked += 1;
      last = entry.number;
      if (entry.replayId === replayId) step[progressOf(entry)] += 1;
      else if (isWanted(entry, request)) {
        entry.replayId = replayId;
        const dueAtMs = nowMs + request.firstInMs + step.queued * request.spacingMs;
        this.#reopen(entry, { by: request.by, restart: request.restart, dueAtMs });
        this.#wait(entry, nowMs);
        step.queued += 1;
      }
    }
    if (step.queued > 0) this.#tellDue();
    return { ...step, next: hasMore ? String(last) : null };
  }

  async find(id: string): Promise<Delivery | null> {
    const entry = this.#log.get(id);
    return entry === undefined ? null : shownDelivery(entry);
  }

  async payload(id: string): Promise<string | null> {
    return this.#log.get(id)?.body ?? null;
  }

  async list(filter: DeliveryFilter, { limit, after }: { readonly limit: number; readonly after: string | null }) {
    const found: DeliveryEntry[] = [];
    for (const entry of this.#log.newest(positionOf(after) ?? this.#made + 1)) {
      if (!matches(entry, filter)) continue;
      found.push(entry);
      if (found.length > limit) break;
    }
    const page = found.slice(0, limit);
    const last = page.at(-1);
    return {
      deliveries: page.map(shownDelivery),
      next: found.length > limit && last !== undefined ? String(last.number) : null,
    };
  }

  async backlog(): Promise<readonly EndpointBacklog[]> {
    const nowMs = this.#clock.now();
    const rows: EndpointBacklog[] = [];
    for (const line of this.#lines.values()) {
      const { account, endpointId } = line;
      const firstMs = line.firstDueAtMs();
      const oldestDueAtMs = firstMs !== null && firstMs <= nowMs ? firstMs : null;
      rows.push({ account, endpointId, open: line.waiting + line.held, oldestDueAtMs });
    }
    return rows.sort(byWait).slice(0, backlogMax);
  }

  async due(): Promise<number> {
    const nowMs = this.#clock.now();
    this.#takeBackLost(nowMs);
    let due = 0;
    for (const line of this.#lines.values()) due += line.countDue(nowMs);
    return due;
  }

  onDue(listener: () => void): () => void {
    // Its own function, so that the same listener may be told twice and each leave by itself.
    const told = (): void => listener();
    this.#listeners.add(told);
    return () => void this.#listeners.delete(told);
  }

  /** Takes payloads that are kept no longer and forgets records, at most `max` in all; how many. */
  purge(nowMs: number, max: number): number {
    return this.#ended.purge(nowMs, max, (entry) => this.#log.remove(entry));
  }

  #standingOf(endpointId: string): Standing {
    const endpoint = this.#endpoints.get(endpointId);
    if (endpoint === null) return { isOpen: false, reason: "endpoint_deleted" };
    if (endpoint.status === "disabled") return { isOpen: false, reason: "endpoint_disabled" };
    return { isOpen: true, maxInFlight: endpoint.maxInFlight };
  }

  #lineOf({ account, endpointId }: DeliveryEntry): EndpointLine {
    const known = this.#lines.get(endpointId);
    if (known !== undefined) return known;
    const line = new EndpointLine(account, endpointId);
    this.#lines.set(endpointId, line);
    return line;
  }

  /** Lets an open one wait until it is due. */
  #wait(entry: DeliveryEntry, nowMs: number): void {
    const line = this.#lineOf(entry);
    line.put(entry);
    this.#turns.place(line, nowMs);
  }

  /** Takes an open one out of its holder's hands or out of its line: nobody can tell its end any more. */
  #release(entry: DeliveryEntry): void {
    const line = this.#lineOf(entry);
    if (entry.leasedUntilMs === null) line.leave(entry);
    else {
      this.#leases.end(entry);
      line.held -= 1;
    }
    entry.fence += 1;
  }

  /** A former holder may still tell the end, until somebody else holds it. */
  #takeBackLost(nowMs: number): void {
    for (;;) {
      const entry = this.#leases.firstOver(nowMs);
      if (entry === null) return;
      this.#leases.end(entry);
      this.#lineOf(entry).held -= 1;
      this.#wait(entry, nowMs);
    }
  }

  /** Ends what waits for endpoints that are disabled or gone (WH-30), so many that nothing else waits for long. */
  #endClosed(nowMs: number): void {
    let left = closedAtOnce;
    for (const line of this.#turns.closed()) {
      const standing = this.#standingOf(line.endpointId);
      if (standing.isOpen) continue;
      while (left > 0) {
        const entry = line.take();
        if (entry === null) break;
        entry.fence += 1;
        this.#end(entry, standing.reason, nowMs);
        left -= 1;
      }
    }
  }

  /** Null: it was delivered. The line goes when nothing of it is open. */
  #end(entry: DeliveryEntry, reason: DeliveryFailure | null, nowMs: number): void {
    entry.state = reason === null ? "delivered" : "permanently_failed";
    entry.reason = reason;
    entry.endedAtMs = nowMs;
    this.#ended.add(entry);
    this.#leaveOpen(entry, nowMs);
  }

  /** From its end back to those that wait, for somebody who asked. */
  #reopen(entry: DeliveryEntry, { by, restart, dueAtMs }: { by: string; restart: boolean; dueAtMs: number }): void {
    this.#ended.remove(entry);
    this.#addOpen(entry.account, 1);
    entry.state = "awaiting_retry";
    entry.reason = null;
    entry.trigger = "manual";
    entry.by = by;
    entry.isSingle = !restart;
    if (restart) entry.retriesUsed = 0;
    entry.dueAtMs = dueAtMs;
  }

  #leaveOpen(entry: DeliveryEntry, nowMs: number): void {
    this.#addOpen(entry.account, -1);
    const line = this.#lines.get(entry.endpointId);
    if (line === undefined) return;
    this.#turns.place(line, nowMs);
    if (line.waiting + line.held === 0) this.#lines.delete(entry.endpointId);
  }

  /** How many are open then. */
  #addOpen(account: string, change: number): number {
    const open = (this.#open.get(account) ?? 0) + change;
    if (open === 0) this.#open.delete(account);
    else this.#open.set(account, open);
    return open;
  }

  #drop(): void {
    const dropped = this.#ended.drop(droppedAtOnce, (entry) => this.#log.remove(entry));
    if (dropped > 0) return;
    const nowMs = this.#clock.now();
    let left = droppedAtOnce;
    for (const entry of [...this.#log.oldest(0)]) {
      if (left === 0) return;
      this.#release(entry);
      this.#log.remove(entry);
      this.#leaveOpen(entry, nowMs);
      left -= 1;
    }
  }

  #tellDue(): void {
    for (const listener of this.#listeners) listener();
  }
}

function isInReach(entry: DeliveryEntry, { account, endpointId, fromMs, toMs }: ReplayRequest): boolean {
  if (entry.account !== account || entry.endpointId !== endpointId) return false;
  return entry.createdAtMs >= fromMs && entry.createdAtMs < toMs;
}

function isWanted(entry: DeliveryEntry, { which }: ReplayRequest): boolean {
  if (entry.body === null) return false;
  return entry.state === "permanently_failed" || (which === "all" && entry.state === "delivered");
}

function progressOf({ state }: DeliveryEntry): "waiting" | "delivered" | "failed" {
  if (state === "permanently_failed") return "failed";
  return state === "delivered" ? "delivered" : "waiting";
}

/** Null for the first page; whatever was never a position comes after everything. */
function positionOf(text: string | null): number | null {
  if (text === null) return null;
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

function byWait(a: EndpointBacklog, b: EndpointBacklog): number {
  return (a.oldestDueAtMs ?? Number.POSITIVE_INFINITY) < (b.oldestDueAtMs ?? Number.POSITIVE_INFINITY) ? -1 : 1;
}

function earlier(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
