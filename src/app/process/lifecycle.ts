import { setTimeout as delay } from "node:timers/promises";
import type { ServiceLimits } from "../../contract/limits.js";
import type { Logger } from "../../domain/call/ports.js";
import { isLoopback } from "../../lib/network.js";
import type { Config } from "../config/schema.js";

/** Only in the phase `ready` does `/ready` answer 200. */
export type Phase = "starting" | "ready" | "draining" | "stopped";

/** The steps of a stop. */
export interface Stoppable {
  /** Announces the stop to load balancers: gRPC health becomes NOT_SERVING (`/ready` follows the phase). */
  announceStop(): void;
  /** Rejects new calls and connections and closes idle ones. */
  refuseNew(): void;
  /** Resolves when no call is running. */
  emptied(): Promise<void>;
  /** Aborts the running calls; each settles as `shutting_down`. */
  endCalls(): void;
}

interface LifecycleOptions {
  /** How long new calls are accepted after the stop was announced. */
  readonly drainDelayMs: number;
  /** `drainMs`: how long running calls may finish after that; read when the stop begins. */
  readonly limits: Pick<ServiceLimits, "drainMs">;
  readonly log: Logger;
}

/** Time for load balancers to notice a stop, if other machines can reach the listeners. */
const drainDelayMs = 5_000;

/** How long new calls are accepted after the stop was announced. */
export function drainDelayMsOf({ host, drain_delay: configured }: Config["server"]): number {
  return configured ?? (isLoopback(host) ? 0 : drainDelayMs);
}

/** How long aborted calls may take to settle before their connections are closed. */
export const endGraceMs = 5_000;

/** Start and stop of one service. Closes everything in reverse order of opening, and awaits every tracked promise. */
export class Lifecycle {
  /** Finished requests whose usage could not be written anywhere. */
  usageLost = 0;
  readonly #options: LifecycleOptions;
  readonly #closers: { readonly name: string; readonly close: () => Promise<void> | void }[] = [];
  readonly #tracked = new Set<Promise<unknown>>();
  #phase: Phase = "starting";
  #stopped: Promise<void> | null = null;

  constructor(options: LifecycleOptions) {
    this.#options = options;
  }

  get phase(): Phase {
    return this.#phase;
  }

  started(): void {
    if (this.#phase === "starting") this.#phase = "ready";
  }

  /** Registers the function that closes a part. */
  onClose(name: string, close: () => Promise<void> | void): void {
    this.#closers.push({ name, close });
  }

  /** Awaits a promise in the background. Its failure is logged, and a stop waits until it is settled. */
  track(what: string, promise: Promise<unknown>): void {
    const settled = promise
      .catch((cause: unknown) => this.#options.log.error({ err: cause }, `${what} failed`))
      .finally(() => this.#tracked.delete(settled));
    this.#tracked.add(settled);
  }

  /**
   * Drains, then closes everything. A second call returns the same promise. `drainMs` is for a stop for which a person waits:
   * running calls may finish for at most this time, and new ones are rejected immediately.
   */
  stop(service: Stoppable, drainMs: number | null = null): Promise<void> {
    this.#stopped ??= this.#drain(service, drainMs).then(() => this.close());
    return this.#stopped;
  }

  /** Closes everything in reverse order of opening. A failure is logged and does not stop the rest. */
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

  async #drain(service: Stoppable, drainMsMax: number | null): Promise<void> {
    const { limits, log } = this.#options;
    const drainDelayMs = drainMsMax === null ? this.#options.drainDelayMs : 0;
    const drainMs = Math.min(limits.drainMs, drainMsMax ?? limits.drainMs);
    this.#phase = "draining";
    service.announceStop();
    log.info({ drain_delay_ms: drainDelayMs, drain_ms: drainMs }, "stopping");
    if (drainDelayMs > 0) await delay(drainDelayMs);
    service.refuseNew();
    if (await endsWithin(service.emptied(), drainMs)) return;
    log.warn({ drain_ms: drainMs }, "aborting the running requests: the time to finish has expired");
    service.endCalls();
    await endsWithin(service.emptied(), endGraceMs);
  }
}

/** Whether the promise settles in time. Rejects if the promise rejects. */
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
