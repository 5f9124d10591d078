import { isIP, isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";
import {
  type Address,
  type AddressRange,
  closedRanges,
  embeddedAddresses,
  isIn,
  metadataNames,
} from "../lib/closed-addresses.js";

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
const privateNames = ["localhost", "local", "internal", "localdomain", "home.arpa", ...metadataNames];

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

/** The only IPv6 range that is assigned to the public internet. */
const globalUnicast = ipaddr.parseCIDR("2000::/3");

/** The form `::a.b.c.d`, never public. The library parses it as the mapped form. */
const compatible = /^::\d+\.\d+\.\d+\.\d+$/;

/** Addresses that deliveries may connect to: public unicast ones, and the ranges that the operator lists. */
export class AddressRules {
  readonly #listed: readonly AddressRange[];

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
    if (embedded.some((inner) => isIn(inner, closedRanges))) return false;
    const checked = isStandIn ? (embedded[0] ?? address) : address;
    return !isIn(checked, closedRanges) && (isPublic(checked) || isIn(checked, this.#listed));
  }
}

function isPublic(address: Address): boolean {
  return address.range() === "unicast" && (address.kind() === "ipv4" || isIn(address, [globalUnicast]));
}
