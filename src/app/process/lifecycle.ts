import { setTimeout as delay } from "node:timers/promises";
import type { ServiceLimits } from "../../contract/limits.js";
import type { Logger } from "../../domain/call/ports.js";

/** Where the process stands. Only `ready` answers `/ready` with 200. */
export type Phase = "starting" | "ready" | "draining" | "stopped";

/** What a service needs to be able to do so that it can be stopped in order. */
export interface Stoppable {
  /** Load balancers must see that this process goes: gRPC health is NOT_SERVING (`/ready` follows the phase). */
  announceStop(): void;
  /** New calls are refused, idle connections closed, new ones not accepted. */
  refuseNew(): void;
  /** Resolves when no call is left. */
  emptied(): Promise<void>;
  /** Ends the calls that are left; each settles as `shutting_down`. */
  endCalls(): void;
}

interface LifecycleOptions {
  /** How long to keep accepting after the stop was announced. */
  readonly drainDelayMs: number;
  /** How long running calls may finish after that: as it is when the stop begins. */
  readonly limits: Pick<ServiceLimits, "drainMs">;
  readonly log: Logger;
}

/** How long calls that were ended may take to settle before connections are cut. */
export const endGraceMs = 5_000;

/** Start and stop of one service: closes what was opened in reverse order, and loses no promise. */
export class Lifecycle {
  readonly #options: LifecycleOptions;
  readonly #closers: { readonly name: string; readonly close: () => Promise<void> | void }[] = [];
  readonly #tracked = new Set<Promise<unknown>>();
  #phase: Phase = "starting";
  #stopped: Promise<void> | null = null;
  #usageLost = 0;

  constructor(options: LifecycleOptions) {
    this.#options = options;
  }

  get phase(): Phase {
    return this.#phase;
  }

  started(): void {
    if (this.#phase === "starting") this.#phase = "ready";
  }

  /** Finished requests whose usage could be written nowhere. */
  get usageLost(): number {
    return this.#usageLost;
  }

  usageWasLost(requests: number): void {
    this.#usageLost += requests;
  }

  /** Registers how to close something, right where it is opened. */
  onClose(name: string, close: () => Promise<void> | void): void {
    this.#closers.push({ name, close });
  }

  /** Takes over a promise that nobody awaits: its failure is logged, the stop waits for it. */
  track(what: string, promise: Promise<unknown>): void {
    const settled = promise
      .catch((cause: unknown) => this.#options.log.error({ err: cause }, `${what} failed`))
      .finally(() => this.#tracked.delete(settled));
    this.#tracked.add(settled);
  }

  /** Drains, then closes everything. A second call gets the first one's promise. */
  stop(service: Stoppable): Promise<void> {
    this.#stopped ??= this.#drain(service).then(() => this.close());
    return this.#stopped;
  }

  /** Closes everything at once, in reverse order of opening. What fails to close is logged and does not stop the rest. */
  async close(): Promise<void> {
    for (const { name, close } of this.#closers.splice(0).reverse()) {
      try {
        await close();
      } catch (cause) {
        this.#options.log.error({ err: cause, part: name }, "a part did not close");
      }
    }
    await Promise.all(this.#tracked);
    this.#phase = "stopped";
  }

  async #drain(service: Stoppable): Promise<void> {
    const { drainDelayMs, limits, log } = this.#options;
    const { drainMs } = limits;
    this.#phase = "draining";
    service.announceStop();
    log.info({ drain_delay_ms: drainDelayMs, drain_ms: drainMs }, "stopping");
    if (drainDelayMs > 0) await delay(drainDelayMs);
    service.refuseNew();
    if (await endsWithin(service.emptied(), drainMs)) return;
    log.warn({ drain_ms: drainMs }, "running requests are ended: limits.drain is over");
    service.endCalls();
    await endsWithin(service.emptied(), endGraceMs);
  }
}

/** Whether the promise settles in time. */
async function endsWithin(promise: Promise<void>, ms: number): Promise<boolean> {
  const timer = new AbortController();
  const late = delay(ms, false, { signal: timer.signal }).catch(() => false);
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    timer.abort();
  }
}

/** The service cannot start: the message names the cause, `fix` what the operator can do. Ends the command with exit code 2. */
export class StartError extends Error {
  override readonly name = "StartError";
  readonly fix: string;
  constructor(message: string, fix: string, options?: ErrorOptions) {
    super(message, options);
    this.fix = fix;
  }
}
