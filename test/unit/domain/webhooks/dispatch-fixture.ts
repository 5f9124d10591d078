import { setImmediate as nextTurn } from "node:timers/promises";
import type { Logger } from "../../../../src/domain/call/ports.js";
import type { State } from "../../../../src/domain/service/state.js";
import type { AttemptEnd, SendResult, WebhookRequest } from "../../../../src/domain/webhooks/delivery.js";
import { type AttemptError, type Delivery, deliveryId } from "../../../../src/domain/webhooks/delivery.js";
import {
  Dispatcher,
  type DispatcherDeps,
  type DispatcherSettings,
} from "../../../../src/domain/webhooks/dispatcher.js";
import type { EndpointRecord } from "../../../../src/domain/webhooks/endpoint-store.js";
import { SecretBox } from "../../../../src/lib/crypto.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { event } from "../../../suites/delivery-records.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { endpoint, settlement } from "../../../support/records.js";

const seconds = 1_000;
const minutes = 60 * seconds;
export const day = 24 * 60 * minutes;

/** The documented retry delays. */
export const scheduleMs = [30 * seconds, 2 * minutes, 10 * minutes, 30 * minutes, 120 * minutes];

/** The documented settings. */
export const settings: DispatcherSettings = {
  budgetMs: 5 * seconds,
  retryDelaysMs: scheduleMs,
  leaseMs: 15 * seconds,
  inFlightMax: 64,
  isOnlyWorker: true,
  disableAfterMs: 5 * day,
};

const nothing: SendResult = { latencyMs: 0, status: null, error: null, ip: null, response: null, retryAfter: null };

export function answered(status: number): SendResult {
  return { ...nothing, status, ip: "203.0.113.7", response: "" };
}

export function unanswered(error: AttemptError): SendResult {
  return { ...nothing, error };
}

export interface Logged {
  readonly level: keyof Logger;
  readonly message: string;
  readonly fields: Record<string, unknown>;
}

/** A log that records lines above the level debug. */
export function keptLog(): Logger & { readonly lines: Logged[] } {
  const lines: Logged[] = [];
  const at = (level: keyof Logger) => (fields: object, message: string) => {
    lines.push({ level, message, fields: { ...fields } });
  };
  return { lines, debug: () => {}, info: at("info"), warn: at("warn"), error: at("error") };
}

/** Receivers with configured responses, which record the time of each attempt. */
export class TestReceivers {
  readonly #clock: FakeClock;
  readonly got: (WebhookRequest & { readonly atMs: number })[] = [];
  /** By default every attempt succeeds immediately. */
  answer: (request: WebhookRequest) => SendResult | Promise<SendResult> = () => answered(200);
  /** Unanswered attempts: current number and maximum so far. */
  open = 0;
  openMax = 0;

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  async send(request: WebhookRequest): Promise<SendResult> {
    this.got.push({ ...request, atMs: this.#clock.now() });
    this.open += 1;
    this.openMax = Math.max(this.openMax, this.open);
    try {
      return await this.answer(request);
    } finally {
      this.open -= 1;
    }
  }

  /** Answers after a delay. */
  after(ms: number, result: SendResult): Promise<SendResult> {
    return new Promise((resolve) => {
      this.#clock.after(ms, () => resolve({ ...result, latencyMs: ms }));
    });
  }
}

/** Dispatchers over one state in memory, its clock, and receivers. */
export class Dispatching {
  readonly clock = new FakeClock();
  readonly state: State = openMemoryState({ clock: this.clock });
  readonly box = new SecretBox(Buffer.alloc(32, 7));
  readonly receivers = new TestReceivers(this.clock);
  readonly log = keptLog();
  readonly ends: AttemptEnd[] = [];
  failing = 0;
  readonly #started: Dispatcher[] = [];
  #made = 0;

  start(
    changes: Partial<Omit<DispatcherDeps, "settings">> & { settings?: Partial<DispatcherSettings> } = {},
  ): Dispatcher {
    const { state, clock, receivers, log, box } = this;
    const dispatcher = new Dispatcher({
      queue: state.deliveries,
      endpoints: state.endpoints,
      changes: state.changes,
      secrets: box,
      sender: receivers,
      clock,
      now: () => state.now(),
      log,
      observer: {
        attemptEnded: (end) => void this.ends.push(end),
        endpointsFailing: (count) => {
          this.failing = count;
        },
      },
      live: { size: 1 },
      ...changes,
      settings: { ...settings, ...changes.settings },
    });
    this.#started.push(dispatcher);
    return dispatcher;
  }

  /** Starts a dispatcher that finds nothing to do and waits. */
  async startIdle(changes: Parameters<Dispatching["start"]>[0] = {}): Promise<Dispatcher> {
    const dispatcher = this.start(changes);
    await this.soon();
    return dispatcher;
  }

  /** Closes all started dispatchers. */
  async close(): Promise<void> {
    const closing = Promise.all(this.#started.map((dispatcher) => dispatcher.close()));
    await this.pass(6_000);
    await closing;
  }

  /** Inserts an endpoint of account `a` with these secrets, newest first. */
  async insert(id: string, changes: Partial<EndpointRecord> = {}, secrets = [`whsec_${id}`]): Promise<void> {
    const sealed = secrets.map((secret, i) => ({
      sealed: this.box.seal(secret, id),
      hint: secret.slice(-4),
      expiresAtMs: i === 0 ? null : this.clock.now() + day,
    }));
    await this.state.endpoints.insert(
      endpoint(id, { url: `https://${id}.example/hook`, secrets: sealed, ...changes }),
      100,
    );
  }

  async change(id: string, changes: Partial<EndpointRecord>): Promise<void> {
    const kept = await this.state.endpoints.find("a", id);
    if (kept === null) throw new Error(`there is no endpoint ${id}`);
    const { record } = kept;
    expectReplaced(await this.state.endpoints.replace({ ...record, ...changes, version: record.version + 1 }));
  }

  /** Settles a request with an event; returns the id of its delivery to the endpoint. */
  async emit(endpointId: string, account = "a"): Promise<string> {
    this.#made += 1;
    const made = event(this.#made);
    await this.state.ledger.settle(settlement(`req_${this.#made}`, { account, event: made }));
    return deliveryId(made.id, endpointId);
  }

  async emitMany(endpointId: string, count: number): Promise<string[]> {
    const ids: string[] = [];
    while (ids.length < count) ids.push(await this.emit(endpointId));
    return ids;
  }

  async find(id: string): Promise<Delivery> {
    const delivery = await this.state.deliveries.find(id);
    if (delivery === null) throw new Error(`there is no delivery ${id}`);
    return delivery;
  }

  /** Lets all attempts of the first schedule fail. */
  async failForGood(id: string): Promise<void> {
    this.receivers.answer = () => answered(500);
    await this.now();
    for (const delayMs of scheduleMs) await this.pass(delayMs);
    await this.soon();
    const { state, attemptsMade } = await this.find(id);
    if (state !== "permanently_failed" || attemptsMade !== 6) throw new Error(`${id} is ${state}`);
  }

  /** Runs all work that is due now. */
  async now(): Promise<void> {
    for (let turn = 0; turn < 40; turn += 1) {
      this.clock.advance(0);
      await nextTurn();
    }
  }

  /** Passes the short pause after an empty claim, and runs work that is due then. */
  soon(): Promise<void> {
    return this.pass(5);
  }

  /** Advances the time in steps, and runs due work after each. */
  async pass(ms: number, stepMs = ms): Promise<void> {
    await this.now();
    for (let passedMs = 0; passedMs < ms; passedMs += stepMs) {
      this.clock.advance(Math.min(stepMs, ms - passedMs));
      await this.now();
    }
  }
}

function expectReplaced(answer: string): void {
  if (answer !== "replaced") throw new Error(`the endpoint is ${answer}`);
}
