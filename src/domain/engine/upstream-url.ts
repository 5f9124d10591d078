import { isClosedHost } from "../../lib/closed-addresses.js";
import type { UpstreamKind } from "./upstream.js";

/**
 * The base URL of an upstream without a slash at its end; `refusal`: the reason of a rejection, to be appended to the name
 * of the setting.
 */
export type UpstreamUrlCheck = { readonly url: string } | { readonly refusal: string };

const urlCharactersMax = 2_048;

/**
 * Checks the base URL of an upstream, which only the operator can set. Private addresses are allowed; link-local and
 * metadata addresses never are (SEC-17). A host name that resolves to one is detected only when a connection is opened.
 */
export function checkUpstreamUrl(text: string): UpstreamUrlCheck {
  if (text.length > urlCharactersMax) return { refusal: "must have at most 2,048 characters" };
  // The parser would remove or replace these characters, so that the URL shown would differ from the URL called.
  if (/[\s\\\p{Cc}]/u.test(text)) return { refusal: "must not have a space, a backslash or a control character" };
  if (!URL.canParse(text)) return { refusal: "must be a URL such as http://10.0.0.5:8000/v1" };
  const url = new URL(text);
  const refusal = partFault(url, text) ?? hostFault(url.hostname);
  return refusal === null ? { url: url.href.replace(/\/+$/, "") } : { refusal };
}

function partFault({ protocol, username, password, pathname }: URL, text: string): string | null {
  if (protocol !== "http:" && protocol !== "https:") return "must begin with http:// or https://";
  if (username !== "" || password !== "") {
    return "must not have a user name or a password: put the key into a file and set key_file";
  }
  if (/[?#]/.test(text))
    return "must not have a query or a fragment: set only the base URL; for Azure, set api_version";
  if (/\/(chat\/completions|completions|embeddings|messages)\/?$/.test(pathname)) {
    return "must be the base URL: remove the path of the operation, so that it ends as in http://10.0.0.5:8000/v1";
  }
  return null;
}

function hostFault(hostname: string): string | null {
  if (!isClosedHost(hostname.replace(/^\[(.*)\]$/, "$1"))) return null;
  return "is a link-local or metadata address, which is never called: set the address of the inference server";
}

/** The kind of a provider by the host of its URL; null for all other hosts. */
export function kindOfHost(url: string): UpstreamKind | null {
  const { hostname } = new URL(url);
  if (hostname === "api.openai.com") return "openai";
  if (hostname === "api.anthropic.com") return "anthropic";
  return /\.(openai\.azure|cognitiveservices\.azure)\.com$/.test(hostname) ? "azure" : null;
}
