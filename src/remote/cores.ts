import type { LookupAddress } from "node:dns";
import { isIP } from "node:net";
import { type ChannelCredentials, credentials } from "@grpc/grpc-js";
import { type Clock, type Logger, pause } from "../domain/call/ports.js";
import { CoreLink } from "./core-link.js";

/** Contents of the TLS files for connections to cores, PEM. */
export interface CoreTls {
  /** Null: the system's CAs. */
  readonly ca: Buffer | null;
  /** The gateway's own certificate and its key; null: it presents none. */
  readonly cert: Buffer | null;
  readonly key: Buffer | null;
}

export interface CoresOptions {
  /** Each is `host:port` or `dns:///host:port`; every IP address of a host name is one core. */
  readonly addresses: readonly string[];
  /** Null: plain text. */
  readonly tls: CoreTls | null;
  /** Looks up the IP addresses of a host name. */
  readonly lookup: (host: string) => Promise<readonly LookupAddress[]>;
  /** For timers that belong to no request. */
  readonly clock: Clock;
  readonly log: Logger;
}

const checkEveryMs = 1_000;
/** Number of checks between two look-ups of host names. */
const lookUpEveryChecks = 5;
/** How long a call waits for a core while none is reachable. */
const waitMs = 1_000;
/** How long a start waits for the first check. */
const firstCheckMs = 2_000;

const order = { serving: 0, leaving: 1, unknown: 2, unreachable: 3 } as const;

/** The cores of a gateway. They are found by name, checked each second, and chosen by their number of running calls. */
export class Cores {
  readonly #options: CoresOptions;
  readonly #credentials: ChannelCredentials;
  /** The links by address. */
  #links = new Map<string, CoreLink>();
  #checks = 0;
  #isClosed = false;
  #cancelTimer = (): void => {};
  /** Functions that end the waits for a reachable core. */
  #waiting: (() => void)[] = [];
  #wasReachable = true;

  constructor(options: CoresOptions) {
    this.#options = options;
    const { tls } = options;
    this.#credentials = tls === null ? credentials.createInsecure() : credentials.createSsl(tls.ca, tls.key, tls.cert);
  }

  /** Resolves when the cores are found and checked once, or after 2 s. */
  async start(): Promise<void> {
    await Promise.race([this.#round(), pause(this.#options.clock, firstCheckMs)]);
  }

  /** Whether a core takes calls. A leaving core takes calls until its connections are closed. */
  get isReachable(): boolean {
    for (const { state } of this.#links.values()) if (state === "serving" || state === "leaving") return true;
    return false;
  }

  /** The core for an attempt: untried cores first, then serving ones, then the one with the fewest calls. Null: no cores. */
  pick(tried: ReadonlySet<CoreLink>): CoreLink | null {
    let best: CoreLink | null = null;
    let ties = 0;
    const rankOf = (link: CoreLink) => (tried.has(link) ? 10 : 0) + order[link.state];
    for (const link of this.#links.values()) {
      const by = best === null ? -1 : rankOf(link) - rankOf(best) || link.outstanding - best.outstanding;
      ties = by === 0 ? ties + 1 : by < 0 ? 1 : ties;
      if (by < 0 || (by === 0 && Math.random() < 1 / ties)) best = link;
    }
    return best;
  }

  /** Resolves when a core is reachable, but after 1 s at the latest. */
  async reachable(): Promise<void> {
    if (this.isReachable || this.#isClosed) return;
    await Promise.race([
      new Promise<void>((resolve) => this.#waiting.push(resolve)),
      pause(this.#options.clock, waitMs),
    ]);
  }

  /** Call when a call has found a core unreachable or stopping. The core's health is checked immediately. */
  gone(link: CoreLink): void {
    if (link.state === "unreachable" || this.#isClosed) return;
    link.state = "unreachable";
    void link.check().then(() => this.#note());
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTimer();
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
    this.#note();
  }

  async #round(): Promise<void> {
    if (this.#checks % lookUpEveryChecks === 0 || this.#links.size === 0) await this.#find();
    this.#checks += 1;
    await Promise.all([...this.#links.values()].map((link) => link.check().then(() => this.#note())));
    if (this.#isClosed) return;
    this.#note();
    this.#cancelTimer = this.#options.clock.after(checkEveryMs, () => void this.#round());
  }

  #note(): void {
    const { log, addresses } = this.#options;
    const isReachable = this.isReachable;
    if (isReachable || this.#isClosed) for (const resolve of this.#waiting.splice(0)) resolve();
    if (isReachable === this.#wasReachable || this.#isClosed) return;
    this.#wasReachable = isReachable;
    const fields = { addresses };
    if (isReachable) log.info(fields, "a core is reachable again");
    else log.warn(fields, "no core is reachable: check core.addresses and the cores; inference is answered with 503");
  }

  /** Looks up the host names. If a look-up fails, the previous addresses are kept. */
  async #find(): Promise<void> {
    const { addresses, clock } = this.#options;
    const found = await Promise.all(addresses.map((name) => this.#addressesOf(name)));
    if (this.#isClosed) return;
    const links = new Map<string, CoreLink>();
    for (const { address, serverName } of found.flat()) {
      const known = this.#links.get(address);
      links.set(address, known ?? new CoreLink(address, this.#credentials, serverName, clock));
    }
    for (const [address, link] of this.#links) if (!links.has(address)) link.close();
    this.#links = links;
  }

  async #addressesOf(name: string): Promise<readonly { address: string; serverName: string | null }[]> {
    const { host, port } = hostAndPort(name);
    const serverName = isIP(host) === 0 ? host : null;
    try {
      const found = serverName === null ? [{ address: host, family: isIP(host) }] : await this.#options.lookup(host);
      return found.map(({ address, family }) => ({
        address: family === 6 ? `ipv6:[${address}]:${port}` : `ipv4:${address}:${port}`,
        serverName,
      }));
    } catch (err) {
      this.#options.log.warn({ err, host }, "the addresses of cores could not be looked up; using the previous ones");
      return [...this.#links.keys()].map((address) => ({ address, serverName }));
    }
  }
}

/** The parts of `host:port`, with or without the scheme `dns:///`; the host without brackets. */
function hostAndPort(name: string): { readonly host: string; readonly port: string } {
  const bare = name.replace(/^dns:\/\/\//, "");
  const colon = bare.lastIndexOf(":");
  return { host: bare.slice(0, colon).replace(/^\[(.*)\]$/, "$1"), port: bare.slice(colon + 1) };
}
