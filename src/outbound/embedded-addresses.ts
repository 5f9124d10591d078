import type ipaddr from "ipaddr.js";

/** IPv4 addresses, as four bytes each, that an IPv6 address leads to. */
export interface EmbeddedAddresses {
  readonly addresses: readonly (readonly number[])[];
  /** Whether the address only stands for the one IPv4 address, which is judged in its place. */
  readonly isStandIn: boolean;
}

interface Form {
  /** Leading bytes that the address has in this form. */
  readonly prefix: readonly number[];
  /** Where the bytes of an IPv4 address may lie. */
  readonly at: readonly (readonly number[])[];
  readonly isInverted?: true;
  readonly isStandIn?: true;
}

const zeros = (count: number): number[] => new Array<number>(count).fill(0);
const last = [12, 13, 14, 15];

/** Every form in which IPv4 is carried in IPv6. */
const forms: readonly Form[] = [
  // ::ffff:a.b.c.d: the system dials IPv4 for it.
  { prefix: [...zeros(10), 0xff, 0xff], at: [last], isStandIn: true },
  // 64:ff9b::/96 of NAT64: what a resolver of an IPv6-only network answers for hosts that have IPv4 only.
  { prefix: [0, 0x64, 0xff, 0x9b, ...zeros(8)], at: [last], isStandIn: true },
  // 64:ff9b:1::/48 of a local NAT64: where the address lies depends on its prefix of 48, 56, 64 or 96 bits.
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
  // Teredo: the server, and the client with all bits turned over.
  { prefix: [0x20, 0x01, 0, 0], at: [[4, 5, 6, 7]] },
  { prefix: [0x20, 0x01, 0, 0], at: [last], isInverted: true },
];

/** The IPv4 addresses that stand in an IPv6 address, in every form that it has; none for a plain one. */
export function embeddedAddresses(address: ipaddr.IPv6): EmbeddedAddresses {
  const bytes = address.toByteArray();
  const ofIt = forms.filter(({ prefix }) => prefix.every((byte, index) => bytes[index] === byte));
  return {
    addresses: ofIt.flatMap(({ at, isInverted }) =>
      at.map((places) => places.map((place) => (bytes[place] ?? 0) ^ (isInverted ? 0xff : 0))),
    ),
    isStandIn: ofIt.some(({ isStandIn }) => isStandIn === true),
  };
}
