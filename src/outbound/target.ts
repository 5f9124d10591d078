import { isIPv4 } from "node:net";
import type { AddressRules } from "../lib/address-rules.js";
import { metadataNames } from "../lib/closed-addresses.js";

/** Destination of a delivery, from a URL that passed the checks. */
export interface Target {
  readonly isSecure: boolean;
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly isAddress: boolean;
  readonly port: number;
  /** Host and port in the form of the `Host` header. */
  readonly authority: string;
  /** Path and query. */
  readonly path: string;
}

export interface TargetRules {
  /** Whether receivers may be reached over `http:` too, and then on port 80. */
  readonly allowHttp: boolean;
  /** Ports that are allowed in addition to 443 and the ports from 1024 on. */
  readonly allowPorts: readonly number[];
  readonly addresses: AddressRules;
}

/** `refusal`: why the URL is rejected, as a sentence for the caller who registers it. */
export type TargetCheck = { readonly target: Target } | { readonly refusal: string };

const urlCharactersMax = 2_048;

/** Domains that are never public, and names of cloud metadata services. */
const privateNames = ["localhost", "local", "internal", "localdomain", "home.arpa", ...metadataNames];

/** All checks of a URL that need no name look-up. */
export function checkTarget(text: string, rules: TargetRules): TargetCheck {
  if (text.length > urlCharactersMax) return { refusal: "The URL has more than 2,048 characters." };
  // The URL parser would remove or replace these characters, so the URL that is called would differ from the one that is
  // shown.
  if (/[\s\\\p{Cc}]/u.test(text)) return { refusal: "The URL has a space, a backslash or a control character." };
  if (!URL.canParse(text)) return { refusal: "The URL cannot be parsed: it must look like https://example.com/path." };
  const url = new URL(text);
  const isSecure = url.protocol === "https:";
  const target: Target = {
    isSecure,
    host: url.hostname.startsWith("[") ? url.hostname.slice(1, -1) : url.hostname,
    // The URL parser has normalized every spelling of an IP address.
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
