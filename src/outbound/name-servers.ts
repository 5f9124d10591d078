import type { LookupAddress } from "node:dns";
import { Resolver as CaresResolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import process from "node:process";

/** Timeout of one question to a name server; it is asked twice. */
const answerTimeoutMs = 1_500;
/** Changes of the system's files take effect after this time. */
const rereadMs = 5_000;
const searchDomainsMax = 6;

const isWindows = process.platform === "win32";
const hostsFile = isWindows ? join("C:", "Windows", "System32", "drivers", "etc", "hosts") : "/etc/hosts";
const resolverFile = isWindows ? null : "/etc/resolv.conf";

/** Addresses from the given name servers alone. */
export class ServerNames {
  readonly #servers = new CaresResolver({ timeout: answerTimeoutMs, tries: 2 });

  /** None: the name servers of the system. */
  constructor(servers: readonly string[] = []) {
    if (servers.length > 0) this.#servers.setServers(servers);
  }

  /** Rejects with the error of the question for IPv4 when neither family has an address. */
  async addresses(name: string): Promise<readonly LookupAddress[]> {
    const [four, six] = await Promise.allSettled([this.#servers.resolve4(name), this.#servers.resolve6(name)]);
    if (four.status === "rejected" && six.status === "rejected") throw four.reason;
    // IPv4 first: a host without IPv6 then does not wait for a refusal.
    const addresses: LookupAddress[] = [
      ...(four.status === "fulfilled" ? four.value : []).map((address) => ({ address, family: 4 })),
      ...(six.status === "fulfilled" ? six.value : []).map((address) => ({ address, family: 6 })),
    ];
    if (addresses.length === 0) throw new Error("the name has no address");
    return addresses;
  }

  close(): void {
    this.#servers.cancel();
  }
}

/** Addresses as the system's own look-up finds them: its hosts file, then its name servers and search domains. */
export class SystemNames {
  #servers = new ServerNames();
  #hosts: ReadonlyMap<string, readonly LookupAddress[]> = new Map();
  #searchDomains: readonly string[] = [];
  #resolverText = "";
  #readAtMs = Number.NEGATIVE_INFINITY;

  async addresses(name: string): Promise<readonly LookupAddress[]> {
    await this.#reread();
    const listed = this.#hosts.get(name.toLowerCase());
    if (listed !== undefined) return listed;
    const servers = this.#servers;
    try {
      return await servers.addresses(name);
    } catch (error) {
      if (!isUnknownName(error)) throw error;
      return await this.#search(servers, name, error);
    }
  }

  close(): void {
    this.#servers.close();
  }

  async #search(servers: ServerNames, name: string, unknown: unknown): Promise<readonly LookupAddress[]> {
    for (const domain of this.#searchDomains) {
      try {
        return await servers.addresses(`${name}.${domain}`);
      } catch (error) {
        if (!isUnknownName(error)) throw error;
      }
    }
    throw unknown;
  }

  async #reread(): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#readAtMs < rereadMs) return;
    this.#readAtMs = nowMs;
    const [hosts, resolver] = await Promise.all([textOf(hostsFile), textOf(resolverFile)]);
    this.#hosts = parseHosts(hosts);
    if (resolver === this.#resolverText) return;
    this.#resolverText = resolver;
    this.#searchDomains = parseSearchDomains(resolver);
    // c-ares reads the servers when it is created. Look-ups under way end with the old ones.
    this.#servers = new ServerNames();
  }
}

/** The name servers say that there is no such name, or none with an address. */
function isUnknownName(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : null;
  return code === "ENOTFOUND" || code === "ENODATA";
}

/** A file that cannot be read has nothing to say: containers often lack one or both. */
async function textOf(file: string | null): Promise<string> {
  return file === null ? "" : await readFile(file, "utf8").catch(() => "");
}

/** By name in lower case, IPv4 first. */
export function parseHosts(text: string): ReadonlyMap<string, readonly LookupAddress[]> {
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

/** Of `resolv.conf`: the last line with `search` or `domain` counts. */
export function parseSearchDomains(text: string): readonly string[] {
  const lines = text.split("\n").map((line) => line.trim().split(/\s+/));
  const domains = lines.findLast(([word]) => word === "search" || word === "domain")?.slice(1) ?? [];
  return domains.filter((domain) => domain !== ".").slice(0, searchDomainsMax);
}
