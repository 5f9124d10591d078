import { isIP, isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";

/** Destination of a delivery, from a URL that passed the checks. */
export interface Target {
  readonly isSecure: boolean;
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly isAddress: boolean;
  readonly port: number;
  /** Host and port as the header `Host` has them. */
  readonly authority: string;
  /** Path and query. */
  readonly path: string;
}

export interface TargetRules {
  /** Whether receivers may be reached over `http:` too, and then on port 80. */
  readonly allowHttp: boolean;
  /** Ports that are allowed besides 443 and those from 1024. */
  readonly allowPorts: readonly number[];
  readonly addresses: AddressRules;
}

/** `refusal`: why the URL is rejected, as a sentence for the caller who registers it. */
export type TargetCheck = { readonly target: Target } | { readonly refusal: string };

const urlCharactersMax = 2_048;

/** Zones that are never public, and names of cloud metadata services. */
const privateNames = [
  "localhost",
  "local",
  "internal",
  "localdomain",
  "home.arpa",
  "metadata.goog",
  "metadata.tencentyun.com",
  "metadata.packet.net",
  "metadata.platformequinix.com",
];

/** All checks of a URL that need no name look-up. */
export function checkTarget(text: string, rules: TargetRules): TargetCheck {
  if (text.length > urlCharactersMax) return { refusal: "The URL has more than 2,048 characters." };
  // The parser would remove or replace them, so that the URL shown would not be the URL called.
  if (/[\s\\\p{Cc}]/u.test(text)) return { refusal: "The URL has a space, a backslash or a control character." };
  if (!URL.canParse(text)) return { refusal: "The URL cannot be parsed: it must look like https://example.com/path." };
  const url = new URL(text);
  const isSecure = url.protocol === "https:";
  const target: Target = {
    isSecure,
    host: url.hostname.startsWith("[") ? url.hostname.slice(1, -1) : url.hostname,
    // The parser has brought every spelling of an address into its one form.
    isAddress: url.hostname.startsWith("[") || isIPv4(url.hostname),
    port: url.port === "" ? (isSecure ? 443 : 80) : Number(url.port),
    authority: url.host,
    path: `${url.pathname}${url.search}`,
  };
  const refusal = partFault(url, text, rules) ?? portFault(target, url, rules) ?? hostFault(target, rules);
  return refusal === null ? { target } : { refusal };
}

function partFault({ protocol, username, password }: URL, text: string, { allowHttp }: TargetRules): string | null {
  if (protocol !== "https:" && (protocol !== "http:" || !allowHttp)) {
    return allowHttp ? "The URL must begin with https:// or http://." : "The URL must begin with https://.";
  }
  if (username !== "" || password !== "") return "The URL must not have a user name or a password.";
  return text.includes("#") ? "The URL must not have a fragment (#)." : null;
}

function portFault({ port }: Target, { protocol }: URL, { allowHttp, allowPorts }: TargetRules): string | null {
  if (port === 443 || port >= 1_024 || allowPorts.includes(port)) return null;
  if (port === 80 && allowHttp && protocol === "http:") return null;
  return `The port ${port} is not open to webhooks: use 443 or one from 1024.`;
}

function hostFault({ host, isAddress }: Target, { addresses }: TargetRules): string | null {
  if (isAddress) {
    return addresses.isOpen(host) ? null : "The address in the URL is not public, and the operator has not opened it.";
  }
  if (host.endsWith(".")) return "The host name must not end with a dot.";
  if (privateNames.some((name) => host === name || host.endsWith(`.${name}`))) {
    return "The host name belongs to a private network: use a public one, or an address that the operator has opened.";
  }
  if (host.includes(".")) return null;
  return "The host name has one part only, as in private networks: use a public one, or an address that the operator has opened.";
}

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = [Address, number];

/** Always blocked, even if the operator lists them: link-local ranges and other addresses of cloud metadata services. */
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

/** The form `::a.b.c.d`, never public. The library parses it as the mapped form. */
const compatible = /^::\d+\.\d+\.\d+\.\d+$/;

/** Addresses that deliveries may connect to: public unicast ones, and the ranges that the operator lists. */
export class AddressRules {
  readonly #listed: readonly Range[];

  /** Ranges as `10.0.0.0/8` or `fd12:3456::/32`. Throws when one cannot be parsed. */
  constructor(listedCidrs: readonly string[]) {
    this.#listed = listedCidrs.map((text) => ipaddr.parseCIDR(text));
  }

  /**
   * Whether deliveries may connect to it. An IPv6 address that embeds an always closed IPv4 address is closed, and only
   * the forms that represent an IPv4 address (mapped, NAT64) can be public. Text that is not an address in its plain form
   * is closed.
   */
  isOpen(text: string): boolean {
    if (isIP(text) === 0 || compatible.test(text)) return false;
    const address = ipaddr.parse(text);
    const { embedded, isStandIn } = embeddedAddresses(address);
    if (embedded.some((inner) => isIn(inner, alwaysClosed))) return false;
    const checked = isStandIn ? (embedded[0] ?? address) : address;
    return !isIn(checked, alwaysClosed) && (isPublic(checked) || isIn(checked, this.#listed));
  }
}

function isIn(address: Address, ranges: readonly Range[]): boolean {
  return ranges.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
}

function isPublic(address: Address): boolean {
  return address.range() === "unicast" && (address.kind() === "ipv4" || isIn(address, [globalUnicast]));
}

interface EmbeddingForm {
  /** Leading bytes of the form. */
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
function embeddedAddresses(address: Address): { readonly embedded: readonly Address[]; readonly isStandIn: boolean } {
  const bytes = address.toByteArray();
  const matching = forms.filter(
    ({ prefix }) => address.kind() === "ipv6" && prefix.every((byte, index) => bytes[index] === byte),
  );
  const embedded = matching.flatMap(({ at, isInverted }) =>
    at.map((positions) => new ipaddr.IPv4(positions.map((index) => (bytes[index] ?? 0) ^ (isInverted ? 0xff : 0)))),
  );
  return { embedded, isStandIn: matching.some(({ isStandIn }) => isStandIn === true) };
}
