import { randomBytes } from "node:crypto";
import type { ChangeFeed, Clock, Logger, StateChange } from "../../../domain/call/ports.js";
import { BoundedMap } from "../../../lib/bounded-collections.js";
import { backOffMs } from "./connect-options.js";
import type { RedisConnection, Subscription } from "./connection.js";
import { keyPrefix } from "./key-space.js";

/** Between two messages that the feed sends to itself. */
const probeEveryMs = 300;
/** So long without one of them coming back, and messages of others may be lost, too. */
const silenceMaxMs = 1_000;
const subscribeTimeoutMs = 1_000;
/** Writes under way, and those that timed out a while ago. */
const untoldMax = 10_000;
/** Beside the kinds of changes: news of the processes themselves, which nobody has to read anything for. */
const replicaKind = "replicas";

/** What a write can be told as. */
export type OwnChange = Exclude<StateChange, { kind: "lost_link" }>;

/**
 * Tells what changed in the store, whoever changed it: scripts publish in the step that writes. The feed also publishes
 * to itself over the other connection, so that it knows of a link that is open but dead, or cut off in a cluster.
 */
export class RedisChangeFeed implements ChangeFeed {
  readonly channel: string;
  readonly #probeChannel: string;
  readonly #connection: RedisConnection;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** Tells this process's messages from those of others. */
  readonly #name = randomBytes(9).toString("base64url");
  /** Changes of this process that its own listeners have not heard of. */
  readonly #untold = new BoundedMap<number, OwnChange>(untoldMax);
  readonly #listeners = new Set<(change: StateChange) => void>();
  readonly #replicaListeners = new Set<() => void>();
  #subscription: Subscription | null = null;
  #isLinked = false;
  #wasLinked = false;
  #isClosed = false;
  #attempts = 0;
  #serial = 0;
  /** Monotonic time at which the last probe came back, or at which the subscription began. */
  #heardAtMs = 0;

  constructor(deps: { readonly connection: RedisConnection; readonly clock: Clock; readonly log: Logger }) {
    this.#connection = deps.connection;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.channel = `${keyPrefix}changes`;
    this.#probeChannel = `${keyPrefix}probe:${this.#name}`;
    this.#open();
    this.#probeAfter(probeEveryMs);
  }

  get isLinked(): boolean {
    return this.#isLinked;
  }

  /** Resolves when changes arrive; false when they do not within `withinMs`. */
  async linked(withinMs: number): Promise<boolean> {
    const untilMs = this.#clock.monotonic() + withinMs;
    while (!this.#isLinked && this.#clock.monotonic() < untilMs) {
      await new Promise<void>((resolve) => this.#clock.after(10, resolve));
    }
    return this.#isLinked;
  }

  subscribe(listener: (change: StateChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Does a write that publishes `messages`, one for each change, and tells this process's own listeners of them before
   * it returns, each once: they need not wait for the message. `hasHappened` looks at what came of the write.
   */
  async telling<R>(
    changes: readonly OwnChange[],
    write: (messages: readonly string[]) => Promise<R>,
    hasHappened: (outcome: R) => boolean,
  ): Promise<R> {
    const drafts = changes.map((change) => {
      this.#serial += 1;
      this.#untold.set(this.#serial, change);
      return { serial: this.#serial, message: `${this.#name} ${this.#serial} ${textOf(change)}` };
    });
    // Where this throws nobody knows whether the write has happened; if it has, the message tells.
    const outcome = await write(drafts.map(({ message }) => message));
    for (const { serial } of drafts) {
      if (hasHappened(outcome)) this.#tellOwn(serial);
      else this.#untold.delete(serial);
    }
    return outcome;
  }

  /** What a process publishes that has come or goes: the others then count anew. */
  get replicaNews(): string {
    return `${this.#name} 0 ${replicaKind}`;
  }

  /** `listener` is called when another process has come or goes. It never throws. */
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
    /** What an earlier connection says late is nothing about this one. */
    let own: Subscription | null = null;
    const events = {
      message: (channel: string, text: string) => {
        if (channel === this.channel) this.#hear(text);
        else if (own !== null && own === this.#subscription) this.#hearProbe();
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
        this.#heardAtMs = this.#clock.monotonic();
        this.#probe();
      },
      () => this.#openLater(),
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
        if (this.#clock.monotonic() - this.#heardAtMs > silenceMaxMs) this.#lose("nothing comes back over it");
        else this.#probe();
      }
      this.#probeAfter(probeEveryMs);
    });
  }

  /** A probe that cannot be sent does not come back, which says it all. */
  #probe(): void {
    this.#connection.command("publish", [this.#probeChannel, ""]).catch(() => {});
  }

  #hearProbe(): void {
    this.#heardAtMs = this.#clock.monotonic();
    if (this.#isLinked) return;
    this.#isLinked = true;
    this.#attempts = 0;
    if (!this.#wasLinked) {
      this.#wasLinked = true;
      return;
    }
    this.#log.info({}, "changes of other replicas arrive again");
    // What was read while nothing arrived, and is remembered only now, may be old.
    this.#tell({ kind: "lost_link" });
  }

  #hear(text: string): void {
    const [name, serial, kind, id] = text.split(" ");
    if (name === this.#name) {
      this.#tellOwn(Number(serial));
      return;
    }
    if (kind === replicaKind) for (const listener of this.#replicaListeners) listener();
    const change = parseChange(kind, id);
    if (change !== null) this.#tell(change);
  }

  #tellOwn(serial: number): void {
    const change = this.#untold.get(serial);
    if (change === undefined) return;
    this.#untold.delete(serial);
    this.#tell(change);
  }

  #tell(change: StateChange): void {
    for (const listener of [...this.#listeners]) listener(change);
  }

  #lose(why: string): void {
    if (this.#isClosed) return;
    this.#subscription?.close();
    this.#subscription = null;
    if (this.#isLinked) {
      this.#isLinked = false;
      this.#log.warn({ why }, "changes of other replicas do not arrive: what they change is read anew each time");
      this.#tell({ kind: "lost_link" });
    }
    this.#openLater();
  }
}

/** How a change is published, after the name of the writer and a serial number. Kept: other versions read it. */
function textOf(change: OwnChange): string {
  return "id" in change ? `${change.kind} ${change.id}` : change.kind;
}

/** Null for what a newer version may say. */
function parseChange(kind: string | undefined, id = ""): StateChange | null {
  switch (kind) {
    case "key":
    case "session":
    case "endpoint":
      return { kind, id };
    case "limits":
    case "thresholds":
    case "settings":
      return { kind };
    default:
      return null;
  }
}
