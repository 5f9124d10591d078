import { lookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { EnvHttpProxyAgent, request } from "undici";
import type { AddressRules } from "../../lib/address-rules.js";
import { isLoopback } from "../../lib/network.js";
import { ModelFileError, SourceUnavailable } from "../files/model-files.js";

/** Network settings. Empty texts mean "none". */
interface HttpClientOptions {
  readonly httpProxy: string;
  readonly httpsProxy: string;
  /** Hosts to which connections bypass the proxy, in the form of NO_PROXY. */
  readonly noProxy: string;
  /** Timeout of DNS lookup, TCP and TLS handshake together. */
  readonly connectTimeoutMs: number;
}

/** Throws if the rules do not allow one of the addresses. The message does not contain the address. */
function requireOpen(host: string, addresses: readonly string[], rules: AddressRules): void {
  if (addresses.every((address) => rules.isOpen(address))) return;
  throw new ModelFileError(
    "blocked",
    `${host} is not open to pulls from the dashboard, because it has a private address: use uis models pull on the ` +
      "service's machine, or list the address in model_store.pull_allow",
  );
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Body, which must be read to its end or dumped. */
  readonly body: AsyncIterable<Buffer> & { dump(): Promise<void> };
  /** Host that answered after all redirects. */
  readonly host: string;
}

interface HttpGet {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent to the origin of `url` only, never to the target of a redirect. */
  readonly authorization?: string;
  readonly signal: AbortSignal;
}

const redirectsMax = 5;
const redirectStatuses = new Set([301, 302, 303, 307, 308]);

/** Sends GET requests over https (http only to this machine) through the operator's proxy and follows redirects. */
export class HttpClient {
  readonly #agent: EnvHttpProxyAgent;
  readonly #rules: AddressRules | null;

  /** `rules`: addresses to which connections without a proxy are allowed; null: all. */
  constructor(
    { httpProxy, httpsProxy, noProxy, connectTimeoutMs }: HttpClientOptions,
    rules: AddressRules | null = null,
  ) {
    this.#rules = rules;
    const tls = { timeout: connectTimeoutMs };
    this.#agent = new EnvHttpProxyAgent({
      httpProxy,
      httpsProxy,
      noProxy,
      // `lookup` checks the addresses to which the socket then connects.
      connect: rules === null ? tls : { ...tls, lookup: checkedLookup(rules) },
      proxyTls: tls,
      requestTls: tls,
      // Disabled, because the caller limits the time without data during the whole exchange.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** Rejects with SourceUnavailable when the host cannot be reached or redirects to an address that is not allowed. */
  async get({ url: first, headers, authorization, signal }: HttpGet): Promise<HttpAnswer> {
    let url = first;
    for (let redirects = 0; redirects <= redirectsMax; redirects += 1) {
      const isOwnOrigin = authorization !== undefined && url.origin === first.origin;
      const answer = await this.#request(url, isOwnOrigin ? { ...headers, authorization } : headers, signal);
      const location = answer.headers["location"];
      if (!redirectStatuses.has(answer.status) || typeof location !== "string") return answer;
      await answer.body.dump();
      url = redirectTarget(location, url);
    }
    throw new SourceUnavailable(`${first.host} redirects more than ${redirectsMax} times: check the address`);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #request(url: URL, headers: HttpGet["headers"], signal: AbortSignal): Promise<HttpAnswer> {
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    // Addresses are checked here, because Node does not call `lookup` for them.
    if (this.#rules !== null && isIP(host) !== 0) requireOpen(url.host, [host], this.#rules);
    if (this.#rules !== null && isLoopback(host)) requireOpen(url.host, ["127.0.0.1"], this.#rules);
    try {
      const answer = await request(url, { dispatcher: this.#agent, headers, signal });
      return { status: answer.statusCode, headers: answer.headers, body: answer.body, host: url.host };
    } catch (cause) {
      signal.throwIfAborted();
      if (cause instanceof ModelFileError) throw cause;
      const unreachable = `${url.host} cannot be reached (${reasonOf(cause)})`;
      const message = `${unreachable}: check the network, the proxy settings (HTTPS_PROXY) and the address`;
      throw new SourceUnavailable(message, { cause, unreachable });
    }
  }
}

/** The `lookup` option of a socket. It fails if the rules forbid any address of the name: the others are suspect then. */
function checkedLookup(rules: AddressRules): LookupFunction {
  return (host, options, callback) => {
    lookup(host, { ...options, all: true }, (error, found) => {
      const [first] = found ?? [];
      if (error !== null || first === undefined) return callback(error, []);
      try {
        requireOpen(
          host,
          found.map(({ address }) => address),
          rules,
        );
      } catch (closed) {
        return callback(closed as Error, []);
      }
      if (options.all) callback(null, found);
      else callback(null, first.address, first.family);
    });
  };
}

function redirectTarget(location: string, from: URL): URL {
  if (!URL.canParse(location, from)) throw new SourceUnavailable(`${from.host} redirects to an invalid address`);
  const target = new URL(location, from);
  const isLocal = target.protocol === "http:" && isLoopback(target.hostname) && isLoopback(from.hostname);
  if (target.protocol === "https:" || isLocal) return target;
  throw new SourceUnavailable(`${from.host} redirects to ${target.origin}, which is not encrypted: use another source`);
}

function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error && error.message !== "" ? error.message : String(error);
}

const advice: Readonly<Record<number, string>> = {
  401: "it requires a token (HF_TOKEN), or there is no such repository",
  403: "access is refused; accept the model's terms there, check HF_TOKEN, or ask the network's operator",
  404: "there is no such file; check its name and revision",
  407: "the proxy requires a login; put it into HTTPS_PROXY",
  429: "too many requests; try again later",
};

/** The error of a response whose status is not a success. */
export function refusal({ status, host }: HttpAnswer, what: string): SourceUnavailable {
  const fix = advice[status] ?? "try again later, or use another source";
  return new SourceUnavailable(`${host} answered ${status} for ${what}: ${fix}`, { status });
}
