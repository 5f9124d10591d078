import type { LookupAddress } from "node:dns";
import { Resolver as CaresResolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP, type LookupFunction } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { type AbortFlag, AbortSource } from "../lib/abort-source.js";
import type { AddressRules } from "../lib/address-rules.js";
import { BoundedMap } from "../lib/collections.js";
import type { FairShare } from "../lib/fair-share.js";

/**
 * Maximum number of addresses of a name that are tried, because a hostile answer can list hundreds of hosts of third
 * parties.
 */
const triedMax = 8;
/** A name that failed is not looked up again within this time. */
const failureHoldMs = 5_000;
const failuresMax = 10_000;

type Addresses = readonly LookupAddress[];

/** The name has an address that webhooks may not reach. The message contains neither the name nor the address. */
export class BlockedAddress extends Error {
  override readonly name = "BlockedAddress";

  constructor() {
    super("the host has an address that is not open to webhooks");
  }
}

export interface ResolverDeps {
  readonly rules: AddressRules;
  /** Bounds how many look-ups run at the same time, shared fairly between accounts. */
  readonly share: FairShare;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

/**
 * Resolves names with c-ares, which needs no thread: name servers that never answer cannot use up libuv's pool, as they do
 * with `dns.lookup`. Look-ups beyond an account's fair share wait. Addresses are never cached; failures are cached for some
 * seconds. Concurrent look-ups of one name share one query. All returned addresses have passed the address rules.
 */
export class Resolver {
  readonly #names: NameSource;
  readonly #rules: AddressRules;
  readonly #share: FairShare;
  readonly #now: () => number;
  readonly #running = new Map<string, Promise<Addresses>>();
  #isClosed = false;
  readonly #failures = new BoundedMap<string, { readonly error: Error; readonly untilMs: number }>(failuresMax);

  /** Servers as `1.1.1.1`, `127.0.0.1:5353` or `[::1]:53`; none: the system's hosts file and name servers. */
  constructor(servers: readonly string[], { rules, share, now = () => performance.now() }: ResolverDeps) {
    this.#names = new NameSource(servers);
    this.#rules = rules;
    this.#share = share;
    this.#now = now;
  }

  /**
   * The first eight addresses, at least one, IPv4 first. Rejects with BlockedAddress when the address rules forbid any
   * address of the name, because the others are then not trusted either. Rejects with another error when the name has no
   * address, no server answers, or the signal aborts while other look-ups of the account run.
   */
  async addresses(name: string, account: string, signal: AbortFlag = new AbortSource()): Promise<Addresses> {
    const found = await (this.#known(name) ?? this.#start(name, account, signal));
    if (found.some(({ address }) => !this.#rules.isOpen(address))) throw new BlockedAddress();
    return found.slice(0, triedMax);
  }

  /**
   * Returns the `lookup` option of a socket, so that the socket connects to an address that was checked. Node does not call
   * it if the host is an IP address. `onAnswer` is called when the look-up has succeeded.
   */
  forSocket(account: string, signal: AbortFlag, onAnswer: () => void): LookupFunction {
    return (name, { all }, callback) => {
      this.addresses(name, account, signal).then(
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

  /** Cancels running and waiting look-ups. */
  close(): void {
    this.#isClosed = true;
    this.#names.close();
  }

  /** The look-up of this name that is in progress, or its recent failure. */
  #known(name: string): Promise<Addresses> | undefined {
    const failure = this.#failures.get(name);
    const hasFailed = failure !== undefined && this.#now() < failure.untilMs;
    return this.#running.get(name) ?? (hasFailed ? Promise.reject(failure.error) : undefined);
  }

  async #start(name: string, account: string, signal: AbortFlag): Promise<Addresses> {
    const release = await this.#share.acquire(account, signal);
    // Another look-up of the name may have begun or failed during the wait.
    const known = this.#isClosed ? Promise.reject(new Error("the resolver is closed")) : this.#known(name);
    if (known !== undefined) {
      release();
      return known;
    }
    const started = this.#lookUp(name).finally(() => {
      this.#running.delete(name);
      release();
    });
    this.#running.set(name, started);
    return started;
  }

  async #lookUp(name: string): Promise<Addresses> {
    try {
      const found = await this.#names.addresses(name);
      this.#failures.delete(name);
      return found;
    } catch (cause) {
      const error = cause instanceof Error ? cause : new Error(String(cause));
      this.#failures.set(name, { error, untilMs: this.#now() + failureHoldMs });
      throw error;
    }
  }
}

/** Timeout of one query to a name server; it is sent twice. */
const answerTimeoutMs = 1_500;
/** Interval at which the system's files are read again, so that changes take effect. */
const rereadMs = 5_000;
const searchDomainsMax = 6;

const isWindows = process.platform === "win32";
const hostsFile = isWindows ? join("C:", "Windows", "System32", "drivers", "etc", "hosts") : "/etc/hosts";
const resolverFile = isWindows ? null : "/etc/resolv.conf";

/**
 * Uses only the configured name servers. If none are configured, it uses the hosts file, name servers and search domains of
 * the system, as the system's own look-up does.
 */
class NameSource {
  readonly #isSystem: boolean;
  #servers = new CaresResolver({ timeout: answerTimeoutMs, tries: 2 });
  #hosts: ReadonlyMap<string, Addresses> = new Map();
  #searchDomains: readonly string[] = [];
  #resolverText = "";
  #readAtMs = Number.NEGATIVE_INFINITY;
  /** The last reading of the system's files. Look-ups wait for one in progress, so that none uses the names from before it. */
  #reading = Promise.resolve();

  constructor(servers: readonly string[]) {
    this.#isSystem = servers.length === 0;
    if (!this.#isSystem) this.#servers.setServers(servers);
  }

  async addresses(name: string): Promise<Addresses> {
    if (this.#isSystem) await this.#reread();
    const listed = this.#hosts.get(name.toLowerCase());
    if (listed !== undefined) return listed;
    const servers = this.#servers;
    let unknown: unknown;
    for (const full of [name, ...this.#searchDomains.map((domain) => `${name}.${domain}`)]) {
      try {
        return await query(servers, full);
      } catch (error) {
        if (!isUnknownName(error)) throw error;
        unknown ??= error;
      }
    }
    throw unknown;
  }

  close(): void {
    this.#servers.cancel();
  }

  #reread(): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#readAtMs >= rereadMs) {
      this.#readAtMs = nowMs;
      this.#reading = this.#read();
    }
    return this.#reading;
  }

  async #read(): Promise<void> {
    const [hosts, resolver] = await Promise.all([textOf(hostsFile), textOf(resolverFile)]);
    this.#hosts = parseHosts(hosts);
    if (resolver === this.#resolverText) return;
    this.#resolverText = resolver;
    this.#searchDomains = parseSearchDomains(resolver);
    // c-ares reads the servers when it is created. Look-ups in progress finish with the old servers.
    this.#servers = new CaresResolver({ timeout: answerTimeoutMs, tries: 2 });
  }
}

/** Queries IPv4 and IPv6 addresses. If both queries fail, rejects with the error of the IPv4 query. */
async function query(servers: CaresResolver, name: string): Promise<Addresses> {
  const [four, six] = await Promise.allSettled([servers.resolve4(name), servers.resolve6(name)]);
  if (four.status === "rejected" && six.status === "rejected") throw four.reason;
  // IPv4 addresses are first, so that a machine without IPv6 does not wait for a failed connection.
  const addresses: LookupAddress[] = [
    ...(four.status === "fulfilled" ? four.value : []).map((address) => ({ address, family: 4 })),
    ...(six.status === "fulfilled" ? six.value : []).map((address) => ({ address, family: 6 })),
  ];
  if (addresses.length === 0) throw new Error("the name has no address");
  return addresses;
}

/** Whether the name servers reported that the name does not exist or has no address. */
function isUnknownName(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : null;
  return code === "ENOTFOUND" || code === "ENODATA";
}

/** An unreadable file counts as empty: containers often lack one or both. */
async function textOf(file: string | null): Promise<string> {
  return file === null ? "" : await readFile(file, "utf8").catch(() => "");
}

/** Addresses by name in lower case, IPv4 first. */
export function parseHosts(text: string): ReadonlyMap<string, Addresses> {
  const hosts = new Map<string, LookupAddress[]>();
  for (const line of text.split("\n")) {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().split(/\s+/);
    const family = isIP(address);
    if (family === 0) continue;
    for (const name of names.map((each) => each.toLowerCase())) {
      hosts.set(
        name,
        [...(hosts.get(name) ?? []), { address, family }].sort((a, b) => a.family - b.family),
      );
    }
  }
  return hosts;
}

/** Search domains of `resolv.conf`: only the last line with `search` or `domain` is used. */
export function parseSearchDomains(text: string): readonly string[] {
  const lines = text.split("\n").map((line) => line.trim().split(/\s+/));
  const domains = lines.findLast(([word]) => word === "search" || word === "domain")?.slice(1) ?? [];
  return domains.filter((domain) => domain !== ".").slice(0, searchDomainsMax);
}
