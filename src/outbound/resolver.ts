import type { LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { BoundedMap } from "../lib/bounded-collections.js";
import type { AddressRules } from "./address-rules.js";
import { ServerNames, SystemNames } from "./name-servers.js";

/** Addresses of a name that are tried, in case a hostile answer lists hundreds of other people's hosts. */
const triedMax = 8;
/** Names under look-up at a time, for one account and over all. */
const accountLookupsMax = 32;
const lookupsMax = 4_096;
/** A name that failed is not asked for again within this time. */
const failureHoldMs = 5_000;
const failuresMax = 10_000;

/** A name has an address that is not open. The error shows neither. */
export class BlockedAddress extends Error {
  override readonly name = "BlockedAddress";

  constructor() {
    super("the host has an address that is not open to webhooks");
  }
}

/** Looks names up for one account; every address that it returns has passed the address rules. */
export class CheckedLookup {
  readonly #resolver: Resolver;
  readonly #rules: AddressRules;

  constructor(resolver: Resolver, rules: AddressRules) {
    this.#resolver = resolver;
    this.#rules = rules;
  }

  /**
   * The first eight addresses. Rejects with BlockedAddress when any address of the name is closed, because the others are
   * suspect then. Rejects with another error when the name has none.
   */
  async addresses(name: string, account: string): Promise<readonly LookupAddress[]> {
    const found = await this.#resolver.resolve(name, account);
    if (found.some(({ address }) => !this.#rules.isOpen(address))) throw new BlockedAddress();
    return found.slice(0, triedMax);
  }

  /**
   * The option `lookup` of a socket, so that the address dialled is the address checked. Node does not call it for a host
   * that is an address. `onAnswer` is called when the resolver has answered.
   */
  forSocket(account: string, onAnswer: () => void): LookupFunction {
    return (name, { all }, callback) => {
      this.addresses(name, account).then(
        (found) => {
          onAnswer();
          const [first] = found;
          if (all || first === undefined) callback(null, [...found]);
          else callback(null, first.address, first.family);
        },
        (error) => callback(error, []),
      );
    };
  }
}

/**
 * Resolves names with c-ares, which needs no thread: name servers that never answer cannot use up libuv's pool, as they
 * do with `dns.lookup`. Each account has its share of the look-ups. Addresses are never cached; failures are, for
 * seconds. Concurrent look-ups of one name share one answer.
 */
export class Resolver {
  readonly #source: SystemNames | ServerNames;
  readonly #now: () => number;
  readonly #running = new Map<string, Promise<readonly LookupAddress[]>>();
  readonly #runningOf = new Map<string, number>();
  readonly #failures = new BoundedMap<string, { readonly error: Error; readonly untilMs: number }>(failuresMax);

  /** Servers as `1.1.1.1`, `127.0.0.1:5353` or `[::1]:53`; none: the system's hosts file and name servers. */
  constructor(servers: readonly string[], now: () => number = () => performance.now()) {
    this.#source = servers.length === 0 ? new SystemNames() : new ServerNames(servers);
    this.#now = now;
  }

  /** At least one address, IPv4 first. Rejects when the name has none or nobody answers. */
  resolve(name: string, account: string): Promise<readonly LookupAddress[]> {
    const running = this.#running.get(name);
    if (running !== undefined) return running;
    const failure = this.#failures.get(name);
    if (failure !== undefined && this.#now() < failure.untilMs) return Promise.reject(failure.error);
    const ofAccount = this.#runningOf.get(account) ?? 0;
    if (ofAccount >= accountLookupsMax)
      return Promise.reject(new Error("too many look-ups of this account are running"));
    if (this.#running.size >= lookupsMax) return Promise.reject(new Error("too many look-ups are running"));
    this.#runningOf.set(account, ofAccount + 1);
    const started = this.#lookUp(name).finally(() => this.#ended(name, account));
    this.#running.set(name, started);
    return started;
  }

  /** Cancels running look-ups. */
  close(): void {
    this.#source.close();
  }

  async #lookUp(name: string): Promise<readonly LookupAddress[]> {
    try {
      const found = await this.#source.addresses(name);
      this.#failures.delete(name);
      return found;
    } catch (cause) {
      const error = cause instanceof Error ? cause : new Error(String(cause));
      this.#failures.set(name, { error, untilMs: this.#now() + failureHoldMs });
      throw error;
    }
  }

  #ended(name: string, account: string): void {
    this.#running.delete(name);
    const left = (this.#runningOf.get(account) ?? 1) - 1;
    if (left === 0) this.#runningOf.delete(account);
    else this.#runningOf.set(account, left);
  }
}
