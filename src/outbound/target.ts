import { isIPv4 } from "node:net";
import type { AddressRules } from "./address-rules.js";

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
  /** `http:` may be used, too, and then port 80. */
  readonly allowHttp: boolean;
  /** Beside 443 and those from 1024. */
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
  const refusal = schemeFault(url, rules) ?? partFault(url, text) ?? portFault(url, rules) ?? hostFault(url, rules);
  return refusal === null ? { target: toTarget(url) } : { refusal };
}

function schemeFault({ protocol }: URL, { allowHttp }: TargetRules): string | null {
  if (protocol === "https:" || (protocol === "http:" && allowHttp)) return null;
  return allowHttp ? "The URL must begin with https:// or http://." : "The URL must begin with https://.";
}

function partFault({ username, password }: URL, text: string): string | null {
  if (username !== "" || password !== "") return "The URL must not have a user name or a password.";
  return text.includes("#") ? "The URL must not have a fragment (#)." : null;
}

function portFault(url: URL, { allowHttp, allowPorts }: TargetRules): string | null {
  const port = portOf(url);
  if (port === 443 || port >= 1_024 || allowPorts.includes(port)) return null;
  if (port === 80 && allowHttp && url.protocol === "http:") return null;
  return `The port ${port} is not open to webhooks: use 443 or one from 1024.`;
}

function hostFault(url: URL, { addresses }: TargetRules): string | null {
  const { hostname } = url;
  if (isAddress(hostname)) {
    const isOpen = addresses.isOpen(bare(hostname));
    return isOpen ? null : "The address in the URL is not public, and the operator has not opened it.";
  }
  if (hostname.endsWith(".")) return "The host name must not end with a dot.";
  if (privateNames.some((name) => hostname === name || hostname.endsWith(`.${name}`))) {
    return "The host name belongs to a private network: use a public one, or an address that the operator has opened.";
  }
  return hostname.includes(".")
    ? null
    : "The host name has one part only, as in private networks: use a public one, or an address that the operator has opened.";
}

function toTarget(url: URL): Target {
  return {
    isSecure: url.protocol === "https:",
    host: bare(url.hostname),
    isAddress: isAddress(url.hostname),
    port: portOf(url),
    authority: url.host,
    path: `${url.pathname}${url.search}`,
  };
}

/** The parser has brought every spelling of an address into its one form. */
function isAddress(hostname: string): boolean {
  return hostname.startsWith("[") || isIPv4(hostname);
}

function bare(hostname: string): string {
  return hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
}

function portOf({ port, protocol }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : 80;
}
