import { randomBytes } from "node:crypto";
import type { ChangeFeed, Clock, Logger, StateChange } from "../../../domain/call/ports.js";
import { BoundedMap } from "../../../lib/collections.js";
import { backOffMs } from "./connect-options.js";
import type { RedisConnection, Subscription } from "./connection.js";
import { keyPrefix } from "./key-space.js";
import { isDenial } from "./permissions.js";

/** Interval of the messages that the feed sends to itself. */
const probeEveryMs = 300;
/** If no probe arrives for this long, messages of other replicas may be lost too. */
const silenceMaxMs = 1_000;
const subscribeTimeoutMs = 2_000;
/** Maximum number of remembered writes that are in progress or timed out recently. */
const unconfirmedMax = 10_000;
/** Kind of a message about starting and stopping processes, in addition to the kinds of changes. */
const replicaKind = "replicas";

/** A change that a write publishes. */
export type OwnChange = Exclude<StateChange, { kind: "lost_link" }>;

/**
 * Changes of the store by all replicas: scripts publish in the step that writes. The feed also publishes probes to itself
 * over the other connection, which detects a link that is open but dead, or cut off in a cluster.
 */
export class RedisChangeFeed implements ChangeFeed {
  readonly channel: string = `${keyPrefix}changes`;
  readonly isComplete = false;
  readonly #connection: RedisConnection;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** Identifies this process's messages. */
  readonly #name = randomBytes(9).toString("base64url");
  readonly #probeChannel = `${keyPrefix}probe:${this.#name}`;
  /** Changes written by this process of which its own listeners are not notified yet. */
  readonly #unconfirmed = new BoundedMap<number, OwnChange>(unconfirmedMax);
  readonly #listeners = new Set<(change: StateChange) => void>();
  readonly #replicaListeners = new Set<() => void>();
  #subscription: Subscription | null = null;
  #isLinked = false;
  #wasLinked = false;
  #isDenied = false;
  #isClosed = false;
  #attempts = 0;
  #serial = 0;
  /** Monotonic time of the last received probe, or of the subscription. */
  #receivedAtMs = 0;

  constructor(deps: { readonly connection: RedisConnection; readonly clock: Clock; readonly log: Logger }) {
    this.#connection = deps.connection;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#open();
    this.#probeAfter(probeEveryMs);
  }

  get isLinked(): boolean {
    return this.#isLinked;
  }

  /** Resolves when changes arrive; false when they do not within `withinMs`, or our user may not subscribe. */
  async linked(withinMs: number): Promise<boolean> {
    const untilMs = this.#clock.monotonic() + withinMs;
    while (!this.#isLinked && !this.#isDenied && this.#clock.monotonic() < untilMs) {
      await new Promise<void>((resolve) => this.#clock.after(10, resolve));
    }
    return this.#isLinked;
  }

  subscribe(listener: (change: StateChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Performs a write that publishes `messages`, one for each change, and notifies this process's own listeners once before
   * it returns: they need not wait for the message. `hasHappened` returns whether the write changed something.
   */
  async publishing<R>(
    changes: readonly OwnChange[],
    write: (messages: readonly string[]) => Promise<R>,
    hasHappened: (outcome: R) => boolean,
  ): Promise<R> {
    const drafts = changes.map((change) => {
      this.#serial += 1;
      this.#unconfirmed.set(this.#serial, change);
      return { serial: this.#serial, message: `${this.#name} ${this.#serial} ${textOf(change)}` };
    });
    // If this throws, the write may have been executed nevertheless; then the listeners are notified by its message.
    const outcome = await write(drafts.map(({ message }) => message));
    for (const { serial } of drafts) {
      if (hasHappened(outcome)) this.#notifyOwn(serial);
      else this.#unconfirmed.delete(serial);
    }
    return outcome;
  }

  /** Message of a process that starts or stops. The other processes then count the replicas again. */
  get replicaNews(): string {
    return `${this.#name} 0 ${replicaKind}`;
  }

  /** `listener` is called when another process starts or stops. It never throws. */
  onReplicaNews(listener: () => void): void {
    this.#replicaListeners.add(listener);
  }

  close(): void {
    this.#isClosed = true;
    this.#isLinked = false;
    this.#subscription?.close();
    this.#listeners.clear();
    this.#replicaListeners.clear();
  }

  #open(): void {
    /** Late events of an earlier connection are ignored. */
    let own: Subscription | null = null;
    const events = {
      message: (channel: string, text: string) => {
        if (channel === this.channel) this.#receive(text);
        else if (own !== null && own === this.#subscription) this.#receiveProbe();
      },
      ended: () => {
        if (own !== null && own === this.#subscription) this.#lose("its connection has ended");
      },
    };
    this.#connection.subscribe([this.channel, this.#probeChannel], events, subscribeTimeoutMs).then(
      (subscription) => {
        if (this.#isClosed) return subscription.close();
        own = subscription;
        this.#subscription = subscription;
        this.#receivedAtMs = this.#clock.monotonic();
        this.#probe();
      },
      (error: Error) => {
        this.#isDenied = isDenial(error.cause);
        this.#openLater();
      },
    );
  }

  #openLater(): void {
    if (this.#isClosed) return;
    this.#attempts += 1;
    this.#clock.after(backOffMs(this.#attempts), () => {
      if (!this.#isClosed) this.#open();
    });
  }

  #probeAfter(ms: number): void {
    this.#clock.after(ms, () => {
      if (this.#isClosed) return;
      if (this.#subscription !== null) {
        if (this.#clock.monotonic() - this.#receivedAtMs > silenceMaxMs) this.#lose("its probes do not arrive");
        else this.#probe();
      }
      this.#probeAfter(probeEveryMs);
    });
  }

  /** Sends a probe. Errors are ignored, because the missing probe shows the fault. */
  #probe(): void {
    this.#connection.command("publish", [this.#probeChannel, ""]).catch(() => {});
  }

  #receiveProbe(): void {
    this.#receivedAtMs = this.#clock.monotonic();
    if (this.#isLinked) return;
    this.#isLinked = true;
    this.#attempts = 0;
    if (!this.#wasLinked) {
      this.#wasLinked = true;
      return;
    }
    this.#log.info({}, "changes of other replicas arrive again");
    // Records that were read while messages were lost and are cached only now may be outdated.
    this.#notify({ kind: "lost_link" });
  }

  #receive(text: string): void {
    const [name, serial, kind, id] = text.split(" ");
    if (name === this.#name) {
      this.#notifyOwn(Number(serial));
      return;
    }
    if (kind === replicaKind) for (const listener of this.#replicaListeners) listener();
    const change = parseChange(kind, id);
    if (change !== null) this.#notify(change);
  }

  #notifyOwn(serial: number): void {
    const change = this.#unconfirmed.get(serial);
    if (change === undefined) return;
    this.#unconfirmed.delete(serial);
    this.#notify(change);
  }

  #notify(change: StateChange): void {
    for (const listener of [...this.#listeners]) listener(change);
  }

  #lose(why: string): void {
    if (this.#isClosed) return;
    this.#subscription?.close();
    this.#subscription = null;
    if (this.#isLinked) {
      this.#isLinked = false;
      this.#log.warn({ why }, "changes of other replicas do not arrive: nothing is cached until they do");
      this.#notify({ kind: "lost_link" });
    }
    this.#openLater();
  }
}

/** A change in a message, after the writer's name and a serial number. A wire format: other versions read it. */
function textOf(change: OwnChange): string {
  return "id" in change ? `${change.kind} ${change.id}` : change.kind;
}

/** Null for an unknown kind, of a newer version. */
function parseChange(kind: string | undefined, id = ""): StateChange | null {
  switch (kind) {
    case "key":
    case "session":
    case "endpoint":
      return { kind, id };
    case "limits":
    case "thresholds":
    case "settings":
    case "upstreams":
    case "drains":
      return { kind };
    default:
      return null;
  }
}
