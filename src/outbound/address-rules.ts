import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = [Address, number];

/** Never open, whatever is listed: link-local ranges and other addresses of cloud metadata services. */
const alwaysClosed = [
  "169.254.0.0/16",
  "fe80::/10",
  "fd00:ec2::254/128",
  "fd20:ce::254/128",
  "100.100.100.200/32",
  "168.63.129.16/32",
].map((text) => ipaddr.parseCIDR(text));

/** The only IPv6 range that is assigned to the public internet. */
const globalUnicast = ipaddr.parseCIDR("2000::/3");

/** The form `::a.b.c.d`, never public. The library takes it for the mapped form. */
const compatible = /^::\d+\.\d+\.\d+\.\d+$/;

/** Addresses that deliveries may connect to: public unicast ones, and the ranges that the operator lists. */
export class AddressRules {
  readonly #listed: readonly Range[];

  /** Ranges as `10.0.0.0/8` or `fd12:3456::/32`. Throws when one cannot be parsed. */
  constructor(listedCidrs: readonly string[]) {
    this.#listed = listedCidrs.map((text) => ipaddr.parseCIDR(text));
  }

  /**
   * Whether deliveries may connect to it. An IPv6 address that embeds an IPv4 one is judged by the inner one: always
   * closed stays closed, and only the forms that stand for an IPv4 address (mapped, NAT64) can be public. Text that is
   * not an address in its plain form is closed.
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

/** IPv4 addresses, as four bytes each, that an IPv6 address embeds. */
interface EmbeddedAddresses {
  readonly addresses: readonly (readonly number[])[];
  /** The IPv6 address only stands for its IPv4 address, which is judged instead. */
  readonly isStandIn: boolean;
}

interface Form {
  /** Leading bytes of the form. */
  readonly prefix: readonly number[];
  /** Positions of the bytes of the IPv4 address; several where they depend on a prefix length. */
  readonly at: readonly (readonly number[])[];
  readonly isInverted?: true;
  readonly isStandIn?: true;
}

const zeros = (count: number): number[] => new Array<number>(count).fill(0);
const last = [12, 13, 14, 15];

/** Every form in which IPv6 embeds IPv4. */
const forms: readonly Form[] = [
  // ::ffff:a.b.c.d: the system dials IPv4 for it.
  { prefix: [...zeros(10), 0xff, 0xff], at: [last], isStandIn: true },
  // 64:ff9b::/96, NAT64: the answer of a resolver in an IPv6-only network for hosts that have IPv4 only.
  { prefix: [0, 0x64, 0xff, 0x9b, ...zeros(8)], at: [last], isStandIn: true },
  // 64:ff9b:1::/48, local NAT64: the position depends on its prefix of 48, 56, 64 or 96 bits.
  {
    prefix: [0, 0x64, 0xff, 0x9b, 0, 1],
    at: [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], last],
  },
  // ::a.b.c.d
  { prefix: zeros(12), at: [last] },
  // ::ffff:0:a.b.c.d
  { prefix: [...zeros(8), 0xff, 0xff, 0, 0], at: [last] },
  // 6to4
  { prefix: [0x20, 0x02], at: [[2, 3, 4, 5]] },
  // Teredo: the server, and the client with all bits inverted.
  { prefix: [0x20, 0x01, 0, 0], at: [[4, 5, 6, 7]] },
  { prefix: [0x20, 0x01, 0, 0], at: [last], isInverted: true },
];

/** The IPv4 addresses that an IPv6 address embeds, in every form that it matches; none for a plain one. */
function embeddedAddresses(address: ipaddr.IPv6): EmbeddedAddresses {
  const bytes = address.toByteArray();
  const ofIt = forms.filter(({ prefix }) => prefix.every((byte, index) => bytes[index] === byte));
  return {
    addresses: ofIt.flatMap(({ at, isInverted }) =>
      at.map((places) => places.map((place) => (bytes[place] ?? 0) ^ (isInverted ? 0xff : 0))),
    ),
    isStandIn: ofIt.some(({ isStandIn }) => isStandIn === true),
  };
}
