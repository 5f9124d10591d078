import type { IncomingMessage } from "node:http";
import type { ServiceLimits } from "../../contract/limits.js";
import { quote, ServiceError } from "../../domain/call/service-error.js";

/** Headers that decide the caller and the end of the request: duplicates let proxies and servers disagree. */
const onceOnly = ["host", "authorization", "content-type", "content-length"];
/** By length, which is different for each: rules out nearly all other names without a comparison. */
const onceOnlyByLength: readonly (string | undefined)[] = Array.from({ length: 16 }, (_, length) =>
  onceOnly.find((name) => name.length === length),
);

export interface HeadCheckOptions {
  readonly limits: Pick<ServiceLimits, "headerLinesMax" | "urlBytesMax">;
  /** Host names, with or without port, lower case; empty: all. */
  readonly allowedHosts: readonly string[];
}

/**
 * Finds what is ambiguous or too large in the head of a request, on the raw header lines: Node's parsed headers hide
 * duplicates (SEC-4, SEC-5). Undefined: nothing.
 */
export function findHeadFault(
  req: IncomingMessage,
  { limits, allowedHosts }: HeadCheckOptions,
): ServiceError | undefined {
  const lines = req.rawHeaders.length / 2;
  if (lines > limits.headerLinesMax) {
    return tooLarge(`The request has ${lines} header lines; at most ${limits.headerLinesMax} are allowed.`);
  }
  const url = req.url ?? "";
  // No character is longer than three bytes: few URLs need to be measured.
  if (url.length * 3 > limits.urlBytesMax && Buffer.byteLength(url) > limits.urlBytesMax) {
    return tooLarge(`The request's URL is longer than ${limits.urlBytesMax} bytes.`);
  }
  if (!url.startsWith("/") && !(url === "*" && req.method === "OPTIONS")) {
    return bad("The request's target must be a path that begins with '/'.");
  }
  return findHeaderFault(req) ?? findExpectationFault(req) ?? findHostFault(req, allowedHosts);
}

function findHeaderFault({ rawHeaders, headers }: IncomingMessage): ServiceError | undefined {
  /** One bit for the length of each header of onceOnly that was seen. */
  let seen = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const once = onceOnlyByLength[name.length];
    if (once === undefined || (name !== once && name.toLowerCase() !== once)) {
      // Some proxies turn it into a hyphen, and so into another header.
      if (name.includes("_")) return bad("Header names with an underscore are not allowed.");
      continue;
    }
    const bit = 1 << name.length;
    if ((seen & bit) !== 0) return bad(`The header '${once}' is there twice.`);
    seen |= bit;
  }
  const encoding = headers["transfer-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "chunked") {
    return bad("The Transfer-Encoding must be chunked.");
  }
  return undefined;
}

function findExpectationFault(req: IncomingMessage): ServiceError | undefined {
  const { expect } = req.headers;
  if (expect === undefined || expect.toLowerCase() === "100-continue") return undefined;
  return bad("The only expectation that can be met is 100-continue.");
}

function findHostFault(req: IncomingMessage, allowedHosts: readonly string[]): ServiceError | undefined {
  const given = req.headers.host;
  if (given === undefined) return req.httpVersion === "1.0" ? undefined : bad("The Host header is missing.");
  if (allowedHosts.length === 0) return undefined;
  const host = given.toLowerCase();
  const withoutPort = host.replace(/:\d*$/, "");
  const isAllowed = allowedHosts.includes(host) || allowedHosts.includes(withoutPort);
  return isAllowed ? undefined : bad("The Host header names a host that is not served here.");
}

function bad(message: string): ServiceError {
  return new ServiceError("invalid_value", message);
}

function tooLarge(message: string): ServiceError {
  return new ServiceError("request_headers_too_large", message);
}

/** `application/json` or any type that ends in `+json`, with any parameters. */
const json = /^(?:application\/json|[\w!#$&^.+-]+\/[\w!#$&^.+-]+\+json)[ \t]*(?:;[^,]*)?$/i;

/** Throws ServiceError `unsupported_media_type` unless the request declares an uncompressed JSON body (GEN-6, SEC-5). */
export function checkMediaType(req: IncomingMessage): void {
  const type = req.headers["content-type"];
  if (type !== "application/json" && (type === undefined || !json.test(type))) {
    throw new ServiceError(
      "unsupported_media_type",
      `The Content-Type must be application/json, but it is ${shown(type)}. With curl, add -H 'Content-Type: application/json'.`,
    );
  }
  const encoding = req.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw new ServiceError(
      "unsupported_media_type",
      `The Content-Encoding of a request must be identity, but it is ${shown(encoding)}.`,
    );
  }
}

function shown(value: string | undefined): string {
  return value === undefined ? "missing" : quote(value);
}
