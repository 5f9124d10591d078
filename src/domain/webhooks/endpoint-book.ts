import { BoundedMap } from "../../lib/collections.js";
import { type ChangeFeed, type Clock, type Logger, pause, type StateChange } from "../call/ports.js";
import type { WebhookObserver } from "./delivery.js";
import { type EndpointHealth, type EndpointRecord, type EndpointStore, signingSecrets } from "./endpoint-store.js";

/**
 * Maximum number of cached endpoints, and of failing endpoints that are tracked. Failing endpoints beyond it are disabled,
 * too.
 */
const endpointsMax = 1_000;
/** Maximum age of an entry when a change was missed. */
const freshMs = 30_000;

/** Decrypts a secret that was encrypted for the endpoint id `owner`; throws on failure. */
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

interface EndpointBookDeps {
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
  /** Reads in progress by account and id; concurrent attempts to one endpoint share a read. */
  readonly #reads = new Map<string, Promise<Receiver | null>>();
  /** Number of changes so far. If it grows during a read, the result may be stale. */
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
    const opened = new Map(record.secrets.map(({ sealed }) => [sealed, this.#openSecret(record.id, sealed)]));
    const open = (sealed: string): string | null => opened.get(sealed) ?? null;
    return { record, secretsAt: (nowMs) => signingSecrets(record.secrets, nowMs, open) };
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

/** Consecutive failures after which an endpoint counts as failing (WH-38). */
const failingAfterFailures = 10;
/** Permanent failures before an endpoint is disabled. */
const permanentlyFailedMin = 20;
/** Interval at which failing endpoints are read again, because another process may have delivered to them. */
const readEveryMs = 60_000;
/** Retries after concurrent changes. */
const triesMax = 5;

/** Whether an endpoint with this health is shown as failing. */
export function isFailing({ failuresInRow }: EndpointHealth): boolean {
  return failuresInRow >= failingAfterFailures;
}

interface FailingEndpointsDeps {
  readonly endpoints: Pick<EndpointStore, "find" | "replace">;
  readonly clock: Clock;
  /** Store time. */
  readonly now: () => number;
  readonly log: Logger;
  readonly observer: Pick<WebhookObserver, "endpointsFailing">;
  /** Time without a success after which an endpoint is disabled; 0: never. */
  readonly disableAfterMs: number;
}

interface EndpointOwner {
  readonly account: string;
  readonly endpointId: string;
}

/**
 * Tracks failing endpoints, reports each start and end of failing once, and disables endpoints without a success for days
 * (WH-38). The store counts over all processes.
 */
export class FailingEndpoints {
  readonly #deps: FailingEndpointsDeps;
  readonly #failing = new Map<string, EndpointOwner>();
  readonly #beingDisabled = new Set<string>();
  #isReading = false;
  #closed = false;

  constructor(deps: FailingEndpointsDeps) {
    this.#deps = deps;
  }

  close(): void {
    this.#closed = true;
  }

  /** Call it with the health after each attempt. Never rejects. */
  async note(owner: EndpointOwner, health: EndpointHealth): Promise<void> {
    if (isFailing(health)) this.#fails(owner, health);
    else this.#recovers(owner);
    if (this.#isToBeDisabled(health)) await this.#disable(owner);
  }

  #fails(owner: EndpointOwner, { failuresInRow, failingSinceMs }: EndpointHealth): void {
    const { log, observer } = this.#deps;
    const { account, endpointId } = owner;
    if (this.#failing.has(endpointId) || this.#failing.size >= endpointsMax) return;
    this.#failing.set(endpointId, owner);
    observer.endpointsFailing(this.#failing.size);
    const since = iso(failingSinceMs);
    log.warn({ endpoint: endpointId, account, failures: failuresInRow, since }, "webhook endpoint is failing");
    void this.#readLater();
  }

  #recovers({ account, endpointId }: EndpointOwner): void {
    if (!this.#forget(endpointId)) return;
    this.#deps.log.info({ endpoint: endpointId, account }, "webhook endpoint recovered");
  }

  #forget(endpointId: string): boolean {
    const wasFailing = this.#failing.delete(endpointId);
    if (wasFailing) this.#deps.observer.endpointsFailing(this.#failing.size);
    return wasFailing;
  }

  #isToBeDisabled({ failingSinceMs, permanentlyFailed }: EndpointHealth): boolean {
    const { disableAfterMs, now } = this.#deps;
    if (!(disableAfterMs > 0) || failingSinceMs === null) return false;
    return permanentlyFailed >= permanentlyFailedMin && now() - failingSinceMs >= disableAfterMs;
  }

  async #disable(owner: EndpointOwner): Promise<void> {
    const { endpointId } = owner;
    if (this.#beingDisabled.has(endpointId)) return;
    this.#beingDisabled.add(endpointId);
    try {
      for (let tries = 0; tries < triesMax && !(await this.#tryToDisable(owner)); tries += 1) {}
    } catch (err) {
      const { log } = this.#deps;
      log.warn({ err, endpoint: endpointId }, "failing webhook endpoint could not be disabled; retrying later");
    } finally {
      this.#beingDisabled.delete(endpointId);
    }
  }

  /**
   * Returns false after a concurrent change; then the endpoint is read again, because it may have recovered or been
   * disabled.
   */
  async #tryToDisable({ account, endpointId }: EndpointOwner): Promise<boolean> {
    const { endpoints, now, log } = this.#deps;
    const kept = await endpoints.find(account, endpointId);
    if (kept === null || kept.record.status === "disabled" || !this.#isToBeDisabled(kept.health)) return true;
    const { record, health } = kept;
    const changes = { status: "disabled", disabledReason: "failing", updatedAtMs: Math.floor(now()) } as const;
    const answer = await endpoints.replace({ ...record, ...changes, version: record.version + 1 });
    if (answer !== "replaced") return answer === "unknown";
    this.#forget(endpointId);
    log.error(
      { endpoint: endpointId, account, since: iso(health.failingSinceMs), failed_for_good: health.permanentlyFailed },
      "webhook endpoint disabled because no delivery succeeded; enable it once it works again",
    );
    return true;
  }

  async #readLater(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    while (this.#failing.size > 0) {
      await pause(this.#deps.clock, readEveryMs);
      for (const owner of [...this.#failing.values()]) {
        if (this.#closed) return;
        await this.#read(owner);
      }
    }
    this.#isReading = false;
  }

  /** Reads the health of an endpoint again. Never rejects: during an outage of the store the last known health is kept. */
  async #read(owner: EndpointOwner): Promise<void> {
    const { endpoints, log } = this.#deps;
    const { account, endpointId } = owner;
    try {
      const kept = await endpoints.find(account, endpointId);
      if (kept === null || kept.record.status === "disabled") this.#forget(endpointId);
      else if (!isFailing(kept.health)) this.#recovers(owner);
    } catch (err) {
      log.debug({ err, endpoint: endpointId }, "failing webhook endpoint could not be read; retrying later");
    }
  }
}

function iso(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString();
}
