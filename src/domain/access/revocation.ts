import { BoundedMap } from "../../lib/bounded-map.js";
import type { ChangeFeed, StateChange } from "../call/change-feed.js";
import type { LiveRequests } from "../call/live-requests.js";
import type { Clock, Logger } from "../call/ports.js";
import type { ApiKeyRecord, KeyStore } from "./key-store.js";
import type { Sessions } from "./sessions.js";

/** How often the keys of running requests are read again, whatever the change feed told or missed (KEY-13). */
const sweepEveryMs = 10_000;

export interface RevocationWatchDeps {
  readonly keys: Pick<KeyStore, "find">;
  readonly sessions: Pick<Sessions, "list">;
  readonly live: LiveRequests;
  readonly changes: Pick<ChangeFeed, "subscribe">;
  readonly clock: Pick<Clock, "after">;
  readonly log: Logger;
}

/**
 * Ends running requests whose key was revoked or whose session is over, on whichever replica that was done: at once when
 * the change feed tells of it, else with the next sweep. A key that merely expires lets its requests finish.
 */
export class RevocationWatch {
  readonly #deps: RevocationWatchDeps;
  readonly #unsubscribe: () => void;
  #cancelTimer: () => void = () => {};
  /** Checks one after the other: however many changes come, one read is under way. */
  #turn: Promise<void> = Promise.resolve();
  #failing = false;
  #closed = false;

  constructor(deps: RevocationWatchDeps) {
    this.#deps = deps;
    this.#unsubscribe = deps.changes.subscribe((change) => this.#onChange(change));
    this.#sweepLater();
  }

  /** Resolves when no read is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unsubscribe();
    this.#cancelTimer();
    await this.#turn;
  }

  #onChange(change: StateChange): void {
    const { live } = this.#deps;
    if (change.kind === "key" && live.keyIds().has(change.id)) this.#inTurn(() => this.#checkKey(change.id));
    else if (change.kind === "session") this.#inTurn(() => this.#checkSessions());
    else if (change.kind === "lost_link") this.#inTurn(() => this.#checkAll());
  }

  #sweepLater(): void {
    this.#cancelTimer = this.#deps.clock.after(sweepEveryMs, () => {
      this.#inTurn(() => this.#checkAll());
      this.#turn = this.#turn.then(() => {
        if (!this.#closed) this.#sweepLater();
      });
    });
  }

  #inTurn(check: () => Promise<void>): void {
    this.#turn = this.#turn.then(async () => {
      if (this.#closed) return;
      try {
        await check();
        this.#failing = false;
      } catch (err) {
        if (!this.#failing) this.#deps.log.warn({ err }, "the keys of running requests cannot be checked");
        this.#failing = true;
      }
    });
  }

  /** One read per key, however many requests run with it. */
  async #checkAll(): Promise<void> {
    for (const id of this.#deps.live.keyIds()) await this.#checkKey(id);
    await this.#checkSessions();
  }

  async #checkKey(id: string): Promise<void> {
    const { keys, live } = this.#deps;
    const record = await keys.find(id);
    if (record === null || record.revokedAtMs !== null) live.abortKey(id);
  }

  async #checkSessions(): Promise<void> {
    const { sessions, live } = this.#deps;
    const running = live.sessionIds();
    if (running.size === 0) return;
    const going = new Set((await sessions.list()).map(({ id }) => id));
    for (const id of running) if (!going.has(id)) live.abortSession(id);
  }
}

/** As long as a replica of the store may be behind when it takes the place of its primary, with much to spare. */
const keptMs = 300_000;
const revocationsMax = 10_000;
/** A store of several servers can lose one without our link to its messages noticing. */
const readEveryMs = 30_000;

interface Revocation {
  readonly revokedAtMs: number;
  readonly notedAtMs: number;
}

export interface RevocationReadBackDeps {
  readonly keys: Pick<KeyStore, "find" | "revoke">;
  readonly changes: Pick<ChangeFeed, "subscribe">;
  readonly clock: Pick<Clock, "monotonic" | "after">;
  readonly log: Logger;
}

/**
 * A store that fails over to a copy may have lost its last writes. A lost revocation would bring a key back to life, so
 * whoever revoked keys in the last minutes reads them back when the link to the store was lost, and every 30 s, and
 * revokes them again where that is needed.
 */
export class RevocationReadBack {
  readonly #deps: RevocationReadBackDeps;
  readonly #unsubscribe: () => void;
  readonly #recent = new BoundedMap<string, Revocation>(revocationsMax);
  #cancelTimer: () => void = () => {};
  #reading: Promise<void> | null = null;
  #again = false;
  #closed = false;

  constructor(deps: RevocationReadBackDeps) {
    this.#deps = deps;
    this.#unsubscribe = deps.changes.subscribe((change) => {
      if (change.kind === "lost_link") this.#read();
    });
    this.#readLater();
  }

  /** The store has acknowledged that this key is revoked. */
  note({ id, revokedAtMs }: Pick<ApiKeyRecord, "id" | "revokedAtMs">): void {
    if (revokedAtMs !== null) this.#recent.set(id, { revokedAtMs, notedAtMs: this.#deps.clock.monotonic() });
  }

  /** Resolves when no read is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unsubscribe();
    this.#cancelTimer();
    await this.#reading;
  }

  #readLater(): void {
    this.#cancelTimer = this.#deps.clock.after(readEveryMs, () => {
      this.#read();
      this.#readLater();
    });
  }

  /** One round at a time; what is asked for meanwhile is one more round. */
  #read(): void {
    if (this.#reading !== null) {
      this.#again = true;
      return;
    }
    this.#reading = this.#readBack().finally(() => {
      this.#reading = null;
      if (!this.#again || this.#closed) return;
      this.#again = false;
      this.#read();
    });
  }

  /** Never rejects: while the store is away, the next round does it. */
  async #readBack(): Promise<void> {
    const { keys, clock, log } = this.#deps;
    try {
      for (const [id, { revokedAtMs, notedAtMs }] of [...this.#recent.entries()]) {
        if (this.#closed) return;
        if (clock.monotonic() - notedAtMs >= keptMs) this.#recent.delete(id);
        else if ((await keys.find(id))?.revokedAtMs === null) {
          await keys.revoke(id, revokedAtMs);
          log.warn({ key_id: id }, "the store had lost the revocation of a key: it is revoked again");
        }
      }
    } catch (err) {
      log.debug({ err }, "revocations cannot be read back now");
    }
  }
}
