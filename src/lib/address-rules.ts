import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { type Address, type AddressRange, closedRanges, embeddedAddresses, isIn } from "./closed-addresses.js";

/** The only IPv6 range that is assigned to the public internet. */
const globalUnicast = ipaddr.parseCIDR("2000::/3");

/** The form `::a.b.c.d`, never public. The library parses it as the mapped form. */
const compatible = /^::\d+\.\d+\.\d+\.\d+$/;

/** Addresses that a request on behalf of others may connect to: public unicast ones, and the ranges that the operator lists. */
export class AddressRules {
  readonly #listed: readonly AddressRange[];

  /** Ranges as `10.0.0.0/8` or `fd12:3456::/32`. Throws when one cannot be parsed. */
  constructor(listedCidrs: readonly string[]) {
    this.#listed = listedCidrs.map((text) => ipaddr.parseCIDR(text));
  }

  /**
   * Whether a request may connect to it. An IPv6 address that embeds an always closed IPv4 address is closed, and only
   * the forms that represent an IPv4 address (mapped, NAT64) can be public. Text that is not an address in its plain form
   * is closed.
   */
  isOpen(text: string): boolean {
    if (isIP(text) === 0 || compatible.test(text)) return false;
    const address = ipaddr.parse(text);
    const { embedded, isStandIn } = embeddedAddresses(address);
    if (embedded.some((inner) => isIn(inner, closedRanges))) return false;
    const checked = isStandIn ? (embedded[0] ?? address) : address;
    return !isIn(checked, closedRanges) && (isPublic(checked) || isIn(checked, this.#listed));
  }
}

function isPublic(address: Address): boolean {
  return address.range() === "unicast" && (address.kind() === "ipv4" || isIn(address, [globalUnicast]));
}
