import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { embeddedAddresses } from "./embedded-addresses.js";

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = [Address, number];

/**
 * Never open, whatever is listed: link-local addresses, where clouds hand out credentials, and the places outside of
 * those ranges where some of them do the same.
 */
const alwaysClosed = [
  "169.254.0.0/16",
  "fe80::/10",
  "fd00:ec2::254/128",
  "fd20:ce::254/128",
  "100.100.100.200/32",
  "168.63.129.16/32",
].map((text) => ipaddr.parseCIDR(text));

/** What of IPv6 is handed out to the public at all. */
const globalUnicast = ipaddr.parseCIDR("2000::/3");

/** The form `::a.b.c.d`, which is public nowhere and which the library takes for the mapped one. */
const compatible = /^::\d+\.\d+\.\d+\.\d+$/;

/** Which addresses may be sent to: public unicast ones, and those of the ranges that the operator lists. */
export class AddressRules {
  readonly #listed: readonly Range[];

  /** Ranges as `10.0.0.0/8` or `fd12:3456::/32`. Throws when one is none. */
  constructor(listedCidrs: readonly string[]) {
    this.#listed = listedCidrs.map((text) => ipaddr.parseCIDR(text));
  }

  /**
   * Whether it is open. An IPv6 address that carries an IPv4 one is judged by that: it is closed if the inner one is
   * always closed, and only the forms that stand for an IPv4 address (mapped, NAT64) can be public. What is no address
   * in its plain form is closed.
   */
  isOpen(text: string): boolean {
    if (isIP(text) === 0 || compatible.test(text)) return false;
    const address = ipaddr.parse(text);
    if (address.kind() === "ipv4") return this.#isOpen(address);
    const { addresses, isStandIn } = embeddedAddresses(address as ipaddr.IPv6);
    const inner = addresses.map((bytes) => new ipaddr.IPv4([...bytes]));
    if (inner.some((one) => isIn(one, alwaysClosed))) return false;
    return this.#isOpen(isStandIn ? (inner[0] ?? address) : address);
  }

  #isOpen(address: Address): boolean {
    return !isIn(address, alwaysClosed) && (isPublic(address) || isIn(address, this.#listed));
  }
}

function isIn(address: Address, ranges: readonly Range[]): boolean {
  return ranges.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
}

function isPublic(address: Address): boolean {
  if (address.range() !== "unicast") return false;
  return address.kind() === "ipv4" || isIn(address, [globalUnicast]);
}
