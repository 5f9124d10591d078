import { BoundedMap } from "../../lib/collections.js";

const windowMs = 60_000;
/** Maximum number of remembered callers (addresses or names). The most recent half of them is never evicted. */
const callersMax = 20_000;

/** Limits the attempts of each caller in fixed windows of one minute, in memory of this process. */
export class AttemptLimit {
  readonly #perMinute: number;
  readonly #windows = new BoundedMap<string, { readonly startedAtMs: number; count: number }>(callersMax);

  constructor(perMinute: number) {
    this.#perMinute = perMinute;
  }

  /** Counts an attempt at `nowMs` (monotonic). Returns null, or the milliseconds until the next is allowed. */
  take(caller: string, nowMs: number): number | null {
    const window = this.#windows.get(caller);
    if (window === undefined || nowMs - window.startedAtMs >= windowMs) {
      this.#windows.set(caller, { startedAtMs: nowMs, count: 1 });
      return null;
    }
    if (window.count >= this.#perMinute) return windowMs - (nowMs - window.startedAtMs);
    window.count += 1;
    return null;
  }

  /** Uncounts a successful attempt. */
  giveBack(caller: string): void {
    const window = this.#windows.get(caller);
    if (window !== undefined && window.count > 0) window.count -= 1;
  }
}

const mappedIpv4 = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/i;
/** Groups of an IPv6 address that identify a host, which usually owns a whole /64, and a site, which has a /48. */
const hostGroups = 4;
const networkGroups = 3;

/** Key of a host in a limit by address: an IPv4 address, or the /64 of an IPv6 address. */
export function hostOf(address: string): string {
  const plain = plainAddress(address);
  return plain.includes(":") ? prefixOf(plain, hostGroups) : plain;
}

/** Key of the network around an address: the /24 of an IPv4 address, or the /48 of an IPv6 address. */
export function networkOf(address: string): string {
  const plain = plainAddress(address);
  if (plain.includes(":")) return prefixOf(plain, networkGroups);
  return plain.replace(/\.\d{1,3}$/, ".0/24");
}

/** An IPv4 address in IPv6 form as an IPv4 address, and IPv6 without its zone. */
function plainAddress(address: string): string {
  const [plain = ""] = address.toLowerCase().split("%");
  return mappedIpv4.exec(plain)?.[1] ?? plain;
}

function prefixOf(address: string, count: number): string {
  const [head = "", tail] = address.split("::");
  const groups = groupsOf(head);
  if (tail !== undefined) {
    const rest = groupsOf(tail);
    while (groups.length + rest.length < 8) groups.push("0");
    groups.push(...rest);
  }
  return `${groups.slice(0, count).join(":")}::/${16 * count}`;
}

function groupsOf(text: string): string[] {
  return text === "" ? [] : text.split(":").map((group) => group.replace(/^0+(?=.)/, ""));
}
