import { BoundedMap } from "../../lib/bounded-map.js";
import type { ChangeFeed, StateChange } from "../call/change-feed.js";
import type { Clock, Logger } from "../call/ports.js";
import { signingSecrets } from "./endpoint-secrets.js";
import type { EndpointRecord, EndpointStore } from "./endpoint-store.js";

const endpointsMax = 1_000;
/** Maximum age of an entry when a change was missed. */
const freshMs = 30_000;

/** Decrypts a secret sealed for an owner; throws on failure. */
export interface SecretOpener {
  open(sealed: string, owner: string): string;
}

/** An endpoint with decrypted secrets. */
export interface Receiver {
  readonly record: EndpointRecord;
  /** Secrets that sign at this time, newest first; null if the newest cannot be decrypted. */
  secretsAt(nowMs: number): readonly string[] | null;
}

interface Known {
  readonly receiver: Receiver;
  readonly readAtMs: number;
}

export interface EndpointBookDeps {
  readonly endpoints: Pick<EndpointStore, "find">;
  readonly changes: ChangeFeed;
  readonly secrets: SecretOpener;
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Logger;
}

/**
 * Cache of endpoints with decrypted secrets. The change feed invalidates entries; while it may miss changes, endpoints
 * are read before every attempt.
 */
export class EndpointBook {
  readonly #deps: EndpointBookDeps;
  readonly #unsubscribe: () => void;
  #known = new BoundedMap<string, Known>(endpointsMax);
  /** Reads in progress by account and id; concurrent attempts share one. */
  readonly #reads = new Map<string, Promise<Receiver | null>>();
  /** Number of changes: a read that was in progress meanwhile may be stale. */
  #generation = 0;

  constructor(deps: EndpointBookDeps) {
    this.#deps = deps;
    this.#unsubscribe = deps.changes.subscribe((change) => this.#onChange(change));
  }

  /** Number of cached endpoints. */
  get size(): number {
    return this.#known.size;
  }

  close(): void {
    this.#unsubscribe();
  }

  /** Null for an unknown endpoint. Rejects with `storage_unavailable`. */
  async find(account: string, id: string): Promise<Receiver | null> {
    const { clock, changes } = this.#deps;
    const known = this.#known.get(id);
    if (known !== undefined && changes.isLinked && clock.monotonic() - known.readAtMs < freshMs) {
      return known.receiver.record.account === account ? known.receiver : null;
    }
    return this.#reads.get(`${account} ${id}`) ?? this.#read(account, id);
  }

  #onChange(change: StateChange): void {
    if (change.kind === "endpoint") this.#known.delete(change.id);
    else if (change.kind === "lost_link") this.#known = new BoundedMap(endpointsMax);
    else return;
    this.#generation += 1;
    this.#reads.clear();
  }

  #read(account: string, id: string): Promise<Receiver | null> {
    const name = `${account} ${id}`;
    const read = this.#readAndRemember(account, id).finally(() => {
      if (this.#reads.get(name) === read) this.#reads.delete(name);
    });
    this.#reads.set(name, read);
    return read;
  }

  async #readAndRemember(account: string, id: string): Promise<Receiver | null> {
    const { endpoints, changes, clock } = this.#deps;
    const generation = this.#generation;
    const readAtMs = clock.monotonic();
    const wasLinked = changes.isLinked;
    const kept = await endpoints.find(account, id);
    if (kept === null) return null;
    const receiver = this.#open(kept.record);
    if (wasLinked && generation === this.#generation) this.#known.set(id, { receiver, readAtMs });
    return receiver;
  }

  #open(record: EndpointRecord): Receiver {
    const opened = new Map<string, string>();
    for (const { sealed } of record.secrets) {
      const secret = this.#openSecret(record.id, sealed);
      if (secret !== null) opened.set(sealed, secret);
    }
    return {
      record,
      secretsAt: (nowMs) => signingSecrets(record.secrets, nowMs, (sealed) => opened.get(sealed) ?? null),
    };
  }

  #openSecret(endpoint: string, sealed: string): string | null {
    const { secrets, log } = this.#deps;
    try {
      return secrets.open(sealed, endpoint);
    } catch (err) {
      log.error({ err, endpoint }, "webhook secret cannot be decrypted; rotate it");
      return null;
    }
  }
}
