import type { LookupAddress } from "node:dns";
import { Resolver as DnsResolver, lookup } from "node:dns/promises";

/** Names that are looked up at a time: those that hang are not joined by ever more. */
const lookupsMax = 512;

/** Of one question to a named server; it is asked twice. */
const answerTimeoutMs = 1_500;

/**
 * Addresses of host names, asked anew each time: nothing is kept. While a name is being looked up, who asks for the same
 * one waits for the same answer, so that a name whose servers hang takes one of the system's few look-ups and not all.
 */
export class Resolver {
  readonly #servers: DnsResolver | null = null;
  readonly #running = new Map<string, Promise<readonly LookupAddress[]>>();

  /** Servers as `1.1.1.1`, `127.0.0.1:5353` or `[::1]:53`; none: as the system resolves. */
  constructor(servers: readonly string[]) {
    if (servers.length === 0) return;
    this.#servers = new DnsResolver({ timeout: answerTimeoutMs, tries: 2 });
    this.#servers.setServers(servers);
  }

  /** At least one address. Rejects when there is none, or no answer. May take longer than anybody wants to wait. */
  resolve(name: string): Promise<readonly LookupAddress[]> {
    const running = this.#running.get(name);
    if (running !== undefined) return running;
    if (this.#running.size >= lookupsMax) return Promise.reject(new Error("too many names are being looked up"));
    const started = this.#ask(name).finally(() => this.#running.delete(name));
    this.#running.set(name, started);
    return started;
  }

  /** Ends questions to named servers. */
  close(): void {
    this.#servers?.cancel();
  }

  #ask(name: string): Promise<readonly LookupAddress[]> {
    return this.#servers === null ? lookup(name, { all: true }) : askServers(this.#servers, name);
  }
}

async function askServers(servers: DnsResolver, name: string): Promise<readonly LookupAddress[]> {
  const [four, six] = await Promise.allSettled([servers.resolve4(name), servers.resolve6(name)]);
  if (four.status === "rejected" && six.status === "rejected") throw four.reason;
  // A host without IPv6 finds out about it the sooner if IPv4 is tried first.
  const addresses: LookupAddress[] = [
    ...(four.status === "fulfilled" ? four.value : []).map((address) => ({ address, family: 4 })),
    ...(six.status === "fulfilled" ? six.value : []).map((address) => ({ address, family: 6 })),
  ];
  if (addresses.length === 0) throw new Error("the name has no address");
  return addresses;
}
