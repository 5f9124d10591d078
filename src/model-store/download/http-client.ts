import { EnvHttpProxyAgent, request } from "undici";
import { isLoopback } from "../../lib/network.js";
import { SourceUnavailable } from "../files/model-errors.js";

/** How the network is reached. Empty texts mean "none". */
interface HttpClientOptions {
  readonly httpProxy: string;
  readonly httpsProxy: string;
  /** Hosts that are asked directly, as NO_PROXY spells them. */
  readonly noProxy: string;
  /** Name lookup, TCP and TLS together. */
  readonly connectTimeoutMs: number;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Must be read to its end, or dumped. */
  readonly body: AsyncIterable<Buffer> & { dump(): Promise<void> };
  /** Host that gave the answer, after all redirects. */
  readonly host: string;
}

interface HttpAsk {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent to the address's own origin only, never to where it redirects. */
  readonly authorization?: string;
  readonly signal: AbortSignal;
}

const redirectsMax = 5;
const redirectStatuses = new Set([301, 302, 303, 307, 308]);

/** GET over https (http on this machine only), through the operator's proxy, following redirects. */
export class HttpClient {
  readonly #agent: EnvHttpProxyAgent;

  constructor({ httpProxy, httpsProxy, noProxy, connectTimeoutMs }: HttpClientOptions) {
    const tls = { timeout: connectTimeoutMs };
    this.#agent = new EnvHttpProxyAgent({
      httpProxy,
      httpsProxy,
      noProxy,
      connect: tls,
      proxyTls: tls,
      requestTls: tls,
      // Silence is measured by the caller, over the whole exchange.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** Rejects with SourceUnavailable when the host cannot be reached or redirects in a way that is not followed. */
  async get(ask: HttpAsk): Promise<HttpAnswer> {
    let url = ask.url;
    for (let redirects = 0; redirects <= redirectsMax; redirects += 1) {
      const answer = await this.#ask(url, ask);
      const location = answer.headers["location"];
      if (!redirectStatuses.has(answer.status) || typeof location !== "string") return answer;
      await answer.body.dump();
      url = redirectTarget(location, url);
    }
    throw new SourceUnavailable(`${ask.url.host} redirects more than ${redirectsMax} times: check the address`);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #ask(url: URL, { headers, authorization, url: first, signal }: HttpAsk): Promise<HttpAnswer> {
    const isOwnOrigin = authorization !== undefined && url.origin === first.origin;
    try {
      const answer = await request(url, {
        dispatcher: this.#agent,
        headers: isOwnOrigin ? { ...headers, authorization } : headers,
        signal,
      });
      return { status: answer.statusCode, headers: answer.headers, body: answer.body, host: url.host };
    } catch (error) {
      signal.throwIfAborted();
      throw new SourceUnavailable(
        `${url.host} cannot be reached (${reasonOf(error)}): check the network, the proxy settings (HTTPS_PROXY) and the address`,
        { cause: error },
      );
    }
  }
}

function redirectTarget(location: string, from: URL): URL {
  if (!URL.canParse(location, from)) throw new SourceUnavailable(`${from.host} redirects to no address`);
  const target = new URL(location, from);
  if (
    target.protocol === "https:" ||
    (target.protocol === "http:" && isLoopback(target.hostname) && isLoopback(from.hostname))
  ) {
    return target;
  }
  throw new SourceUnavailable(`${from.host} redirects to ${target.origin}, which is not encrypted: use another source`);
}

function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error && error.message !== "" ? error.message : String(error);
}

/** The error of an answer that is no file. */
export function refusal({ status, host }: HttpAnswer, what: string): SourceUnavailable {
  return new SourceUnavailable(`${host} answered ${status} for ${what}: ${advice(status)}`, { status });
}

function advice(status: number): string {
  switch (status) {
    case 401:
      return "it wants a token (HF_TOKEN), or there is no such repository";
    case 403:
      return "access is refused; accept the model's terms there, check HF_TOKEN, or ask who runs the network";
    case 404:
      return "there is no such file; check its name and revision";
    case 407:
      return "the proxy wants a login; put it into HTTPS_PROXY";
    case 429:
      return "it is asked too often; try again later";
    default:
      return "try again later, or use another source";
  }
}
