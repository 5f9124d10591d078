import { BoundedMap } from "../../lib/bounded-map.js";
import type { ChangeFeed, StateChange } from "../call/change-feed.js";
import type { LiveRequests } from "../call/live-requests.js";
import type { Clock, Logger } from "../call/ports.js";
import type { ApiKeyRecord, KeyStore } from "./key-store.js";
import type { Sessions } from "./sessions.js";

/** Interval at which the keys of running requests are read again, in case a change was missed (KEY-13). */
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
 * Ends running requests whose key was revoked or whose session ended, on any replica: at once through the change feed,
 * otherwise with the next sweep. Expiry alone lets requests finish.
 */
export class RevocationWatch {
  readonly #deps: RevocationWatchDeps;
  readonly #unsubscribe: () => void;
  #cancelTimer: () => void = () => {};
  /** Checks run one at a time. */
  #turn: Promise<void> = Promise.resolve();
  #failing = false;
  #closed = false;

  constructor(deps: RevocationWatchDeps) {
    this.#deps = deps;
    this.#unsubscribe = deps.changes.subscribe((change) => this.#onChange(change));
    this.#sweepLater();
  }

  /** Resolves when no read is in progress. */
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
        if (!this.#failing) this.#deps.log.warn({ err }, "keys of running requests could not be checked; retrying");
        this.#failing = true;
      }
    });
  }

  /** One read per key. */
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

/** Far longer than a replica lags behind its primary. */
const keptMs = 300_000;
const revocationsMax = 10_000;
/** A cluster can fail over without our subscription noticing. */
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
 * A fail-over can lose the last writes, which would revive a revoked key. Revocations of the last minutes are therefore
 * read back after a lost link and every 30 s, and repeated where they are missing.
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

  /** Remembers an acknowledged revocation. */
  note({ id, revokedAtMs }: Pick<ApiKeyRecord, "id" | "revokedAtMs">): void {
    if (revokedAtMs !== null) this.#recent.set(id, { revokedAtMs, notedAtMs: this.#deps.clock.monotonic() });
  }

  /** Resolves when no read is in progress. */
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

  /** One round at a time; requests during a round start one more. */
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

  /** Never rejects: during an outage the next round repeats it. */
  async #readBack(): Promise<void> {
    const { keys, clock, log } = this.#deps;
    try {
      for (const [id, { revokedAtMs, notedAtMs }] of [...this.#recent.entries()]) {
        if (this.#closed) return;
        if (clock.monotonic() - notedAtMs >= keptMs) this.#recent.delete(id);
        else if ((await keys.find(id))?.revokedAtMs === null) {
          await keys.revoke(id, revokedAtMs);
          log.warn({ key_id: id }, "store lost a key revocation; key revoked again");
        }
      }
    } catch (err) {
      log.debug({ err }, "revocations could not be read back; retrying later");
    }
  }
}
