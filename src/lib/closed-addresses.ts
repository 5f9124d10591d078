import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

export type Address = ipaddr.IPv4 | ipaddr.IPv6;
/** A network and the number of its leading bits. */
export type AddressRange = [Address, number];

/** Names of cloud metadata services, also in a zone that private networks use. */
export const metadataNames: readonly string[] = [
  "metadata.goog",
  "metadata.google.internal",
  "instance-data.ec2.internal",
  "metadata.tencentyun.com",
  "metadata.packet.net",
  "metadata.platformequinix.com",
];

/** Always blocked, even if the operator lists them: link-local ranges and other addresses of cloud metadata services. */
export const closedRanges: readonly AddressRange[] = [
  "169.254.0.0/16",
  "fe80::/10",
  "fd00:ec2::254/128",
  "fd20:ce::254/128",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "192.0.0.192/32",
].map((text) => ipaddr.parseCIDR(text));

/**
 * Whether a host is link-local or a metadata service: a name, or an address without brackets, also one that embeds such an
 * address. A name that resolves to such an address is not recognized: the resolved address must be checked as well.
 */
export function isClosedHost(host: string): boolean {
  if (isIP(host) === 0) {
    const name = host.toLowerCase().replace(/\.$/, "");
    return name === "metadata" || metadataNames.some((one) => name === one || name.endsWith(`.${one}`));
  }
  const address = ipaddr.parse(host);
  return [address, ...embeddedAddresses(address).embedded].some((one) => isIn(one, closedRanges));
}

export function isIn(address: Address, ranges: readonly AddressRange[]): boolean {
  return ranges.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
}

interface EmbeddingForm {
  /** Leading bytes of addresses of this form. */
  readonly prefix: readonly number[];
  /** Positions of the bytes of the IPv4 address; several where they depend on a prefix length. */
  readonly at: readonly (readonly number[])[];
  readonly isInverted?: true;
  /** Whether the IPv6 address only represents its IPv4 address, which is checked instead. */
  readonly isStandIn?: true;
}

const zeros = (count: number): number[] => new Array<number>(count).fill(0);
const last = [12, 13, 14, 15];

/** Every form in which IPv6 embeds IPv4. */
const forms: readonly EmbeddingForm[] = [
  // ::ffff:a.b.c.d: the system dials IPv4 for it.
  { prefix: [...zeros(10), 0xff, 0xff], at: [last], isStandIn: true },
  // 64:ff9b::/96, NAT64: the answer of a resolver in an IPv6-only network for hosts that have IPv4 only.
  { prefix: [0, 0x64, 0xff, 0x9b, ...zeros(8)], at: [last], isStandIn: true },
  // 64:ff9b:1::/48, local NAT64: the position depends on its prefix of 48, 56, 64 or 96 bits.
  { prefix: [0, 0x64, 0xff, 0x9b, 0, 1], at: [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], last] },
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

/** The IPv4 addresses that an IPv6 address embeds, in every form that it matches; none for other addresses. */
export function embeddedAddresses(address: Address): {
  readonly embedded: readonly Address[];
  readonly isStandIn: boolean;
} {
  const bytes = address.toByteArray();
  const matching = forms.filter(
    ({ prefix }) => address.kind() === "ipv6" && prefix.every((byte, index) => bytes[index] === byte),
  );
  const embedded = matching.flatMap(({ at, isInverted }) =>
    at.map((positions) => new ipaddr.IPv4(positions.map((index) => (bytes[index] ?? 0) ^ (isInverted ? 0xff : 0)))),
  );
  return { embedded, isStandIn: matching.some(({ isStandIn }) => isStandIn === true) };
}
