import type { LiveRequest, LiveRequests } from "../call/live-requests.js";
import type { ChangeFeed, Clock, Logger, StateChange } from "../call/ports.js";
import { includesModel, includesModels, sessionIdOf } from "../call/principal.js";
import type { ApiKeyRecord, KeyStore } from "./key-store.js";
import type { Sessions } from "./sessions.js";

/** Interval at which running requests are compared with the rights of their keys, and failed reads are repeated (E-17). */
const checkEveryMs = 500;
/** Checks between two reads of the keys of all running requests, in case a change was missed (KEY-13): 10 s. */
const checksPerSweep = 20;

/** What a key allows, as last read. */
interface KeyRights {
  /** Null: it is revoked. */
  readonly key: Pick<ApiKeyRecord, "models" | "expiresAtMs"> | null;
  /** When it was read. Requests that arrived later were opened with rights that are as new. */
  readonly readAtMs: number;
}

interface RevocationWatchDeps {
  readonly keys: Pick<KeyStore, "find">;
  readonly sessions: Pick<Sessions, "list">;
  readonly live: LiveRequests;
  readonly changes: Pick<ChangeFeed, "subscribe">;
  readonly clock: Pick<Clock, "after" | "now">;
  /** Store time, which decides what has expired. */
  readonly now: () => number;
  readonly log: Logger;
}

/**
 * Ends running requests that their credential no longer allows: the key was revoked, rotated without an overlap, has
 * expired or lost the model, or the session ended, on any replica. Changes arrive on the change feed and are read at
 * once; a change that was missed is found by the next sweep.
 */
export class RevocationWatch {
  readonly #deps: RevocationWatchDeps;
  readonly #unsubscribe: () => void;
  #cancelTimer: () => void = () => {};
  #checks = 0;
  /** Rights of keys that were read while requests of them ran. They replace those that the requests were opened with. */
  readonly #rights = new Map<string, KeyRights>();
  /** Keys to read: changed ones first, then those of the sweep. */
  readonly #changed = new Set<string>();
  readonly #swept = new Set<string>();
  #hasUnreadSessions = false;
  /** Changes to check once more: a request that was being opened during one has the rights from before. */
  readonly #recentKeys = new Set<string>();
  #hasRecentSession = false;
  #reading: Promise<void> = Promise.resolve();
  #isReading = false;
  #failing = false;
  #closed = false;

  constructor(deps: RevocationWatchDeps) {
    this.#deps = deps;
    this.#unsubscribe = deps.changes.subscribe((change) => this.#onChange(change));
    this.#checkLater();
  }

  /** Resolves when no read is in progress. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unsubscribe();
    this.#cancelTimer();
    await this.#reading;
  }

  #onChange(change: StateChange): void {
    switch (change.kind) {
      case "key":
        this.#recentKeys.add(change.id);
        if (this.#deps.live.keyIds().has(change.id)) this.#changed.add(change.id);
        break;
      case "session":
        this.#hasRecentSession = true;
        this.#hasUnreadSessions = true;
        break;
      case "lost_link":
        this.#sweep();
        break;
      default:
        return;
    }
    this.#read();
  }

  #checkLater(): void {
    this.#cancelTimer = this.#deps.clock.after(checkEveryMs, () => {
      this.#checkLater();
      this.#checks += 1;
      if (this.#checks % checksPerSweep === 0) this.#sweep();
      this.#check();
    });
  }

  #check(): void {
    if (this.#recentKeys.size > 0) {
      const running = this.#deps.live.keyIds();
      for (const id of this.#recentKeys) if (running.has(id)) this.#changed.add(id);
      this.#recentKeys.clear();
    }
    this.#hasUnreadSessions ||= this.#hasRecentSession;
    this.#hasRecentSession = false;
    this.#endExcluded();
    this.#read();
  }

  #sweep(): void {
    const running = this.#deps.live.keyIds();
    for (const id of this.#rights.keys()) if (!running.has(id)) this.#rights.delete(id);
    for (const id of running) this.#swept.add(id);
    this.#hasUnreadSessions = true;
  }

  #endExcluded(): void {
    const nowMs = this.#deps.now();
    this.#deps.live.endExcluded((request) => isExcluded(request, this.#rights, nowMs));
  }

  #read(): void {
    if (!this.#isReading) this.#reading = this.#readUnread();
  }

  /** Reads one after the other. What could not be read is read with the next check. */
  async #readUnread(): Promise<void> {
    this.#isReading = true;
    try {
      while (!this.#closed) {
        const [changed] = this.#changed;
        const [swept] = this.#swept;
        if (this.#hasUnreadSessions) await this.#readSessions();
        else if (changed !== undefined) await this.#readKey(changed, this.#changed);
        else if (swept !== undefined) await this.#readKey(swept, this.#swept);
        else break;
      }
      this.#failing = false;
    } catch (err) {
      if (!this.#failing) this.#deps.log.warn({ err }, "keys of running requests could not be checked; retrying");
      this.#failing = true;
    } finally {
      this.#isReading = false;
    }
  }

  async #readKey(id: string, unread: Set<string>): Promise<void> {
    unread.delete(id);
    const { keys, clock } = this.#deps;
    const readAtMs = clock.now();
    const record = await keys.find(id).catch((error: unknown) => {
      unread.add(id);
      throw error;
    });
    // A change during the read: the key is read again.
    if (this.#changed.has(id)) return;
    const isRevoked = record === null || record.revokedAtMs !== null;
    this.#rights.set(id, { key: isRevoked ? null : record, readAtMs });
    // One pass over all requests for each key would be too much for a sweep; the next check applies what else it found.
    if (unread === this.#changed || isRevoked) this.#endExcluded();
  }

  /** One read for all sessions. */
  async #readSessions(): Promise<void> {
    const { sessions, live } = this.#deps;
    this.#hasUnreadSessions = false;
    const running = live.sessionIds();
    if (running.size === 0) return;
    const active = await sessions.list().catch((error: unknown) => {
      this.#hasUnreadSessions = true;
      throw error;
    });
    const ended = new Set(running);
    for (const { id } of active) ended.delete(id);
    if (ended.size > 0) live.endExcluded(({ principal }) => ended.has(sessionIdOf(principal) ?? ""));
  }
}

/** Whether a request's key no longer allows it. A request whose model is not known yet is checked again later. */
function isExcluded(request: LiveRequest, read: ReadonlyMap<string, KeyRights>, nowMs: number): boolean {
  const { principal, receivedAtMs, model, fallbackModel, stage } = request;
  if (principal.kind !== "api_key") return false;
  const last = read.get(principal.keyId);
  const rights = last !== undefined && receivedAtMs <= last.readAtMs ? last.key : principal;
  if (rights === null) return true;
  const { models, expiresAtMs = null } = rights;
  if (expiresAtMs !== null && expiresAtMs <= nowMs) return true;
  if (rights === principal || models.length === 0) return false;
  if (stage === "watching") return !includesModels(models, principal.models);
  return [model, fallbackModel].some((used) => used !== null && !includesModel(models, used));
}
