import { BoundedMap } from "../../lib/bounded-map.js";

const windowMs = 60_000;
/** At least half of this many addresses or names are remembered; a caller with more of them meets other limits. */
const callersMax = 20_000;

interface Window {
  readonly startedAtMs: number;
  count: number;
}

/** Fixed window of one minute per caller, in memory of this process. */
export class AttemptLimit {
  readonly #perMinute: number;
  readonly #windows = new BoundedMap<string, Window>(callersMax);

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
/** Groups of an IPv6 address that identify a network: a host usually owns a whole /64. */
const networkGroups = 4;

/** Key of a caller in a limit by address: an IPv4 address, or the /64 of an IPv6 address. */
export function networkOf(address: string): string {
  if (!address.includes(":")) return address;
  const ipv4 = mappedIpv4.exec(address)?.[1];
  if (ipv4 !== undefined) return ipv4;
  const [plain = ""] = address.toLowerCase().split("%");
  const [head = "", tail] = plain.split("::");
  const groups = groupsOf(head);
  if (tail !== undefined) {
    const rest = groupsOf(tail);
    while (groups.length + rest.length < 8) groups.push("0");
    groups.push(...rest);
  }
  return `${groups.slice(0, networkGroups).join(":")}::/64`;
}

function groupsOf(text: string): string[] {
  return text === "" ? [] : text.split(":").map((group) => group.replace(/^0+(?=.)/, ""));
}
