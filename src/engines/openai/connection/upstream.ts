import { version } from "../../../contract/version.js";
import type { Clock } from "../../../domain/call/ports.js";
import { EngineError } from "../../../domain/engine/engine.js";
import type { UpstreamDefinition } from "../../../domain/engine/upstream.js";
import { type KindProfile, kindProfiles } from "../protocol/kinds.js";
import { createCheckedLookup } from "./checked-lookup.js";
import { ConnectionPool } from "./connection-pool.js";
import { type AnswerReader, Exchange } from "./exchange.js";
import { KeyRing, type ModelKeys, type UpstreamKey } from "./key-ring.js";

/** Shorter than the 5 s after which uvicorn and Node close idle connections, so that few requests use a closing socket. */
const idleConnectionMs = 4_000;
/** Age after which a connection is replaced, so that a change of the server's address is noticed. */
const connectionAgeMs = 60_000;
const responseHeaderBytesMax = 16 * 1_024;
/** Maximum number of keys that one request tries. */
const keysPerRequestMax = 4;
const anthropicVersion = "2023-06-01";
/** Maximum length of a page in Anthropic's list of models; the default is 20. */
const anthropicModelsMax = 1_000;

export type UpstreamOperation =
  | "chat/completions"
  | "completions"
  | "embeddings"
  | "messages"
  | "models"
  | "rerank"
  | "responses";

export interface UpstreamCall {
  readonly operation: UpstreamOperation;
  /** Id of the model on the server; Azure has it in the path. */
  readonly model: string;
  /** JSON body; null: the request is a GET. */
  readonly body: string | null;
  readonly key: UpstreamKey;
  readonly requestId: string | null;
  /** Further headers, by lower-case name. Headers of the configuration take precedence. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** One upstream server: its addresses, credentials and connections. */
export class Upstream {
  readonly settings: UpstreamDefinition;
  readonly profile: KindProfile;
  readonly keys: KeyRing;
  readonly #clock: Clock;
  readonly #backgroundClock: Clock;
  readonly #pool: ConnectionPool;
  readonly #base: URL;

  /** `backgroundClock`: clock for the timers of discovery and health checks. */
  constructor(clock: Clock, settings: UpstreamDefinition, backgroundClock = clock) {
    this.settings = settings;
    this.profile = kindProfiles[settings.kind];
    this.keys = new KeyRing(settings.keys);
    this.#clock = clock;
    this.#backgroundClock = backgroundClock;
    this.#base = new URL(settings.url);
    const { ca, cert, key, serverName } = settings.tls;
    this.#pool = new ConnectionPool(this.#base.origin, {
      clock,
      ageMaxMs: connectionAgeMs,
      connect: {
        timeout: settings.connectMs,
        lookup: createCheckedLookup(),
        minVersion: "TLSv1.2",
        // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED can turn verification off.
        rejectUnauthorized: true,
        ...(ca === null ? {} : { ca }),
        ...(cert === null ? {} : { cert }),
        ...(key === null ? {} : { key: key.reveal() }),
        ...(serverName === null ? {} : { servername: serverName }),
      },
      client: {
        keepAliveTimeout: idleConnectionMs,
        maxHeaderSize: responseHeaderBytesMax,
        // Disabled, because Exchange enforces its own deadlines.
        headersTimeout: 0,
        bodyTimeout: 0,
      },
    });
  }

  /** Starts a request. */
  send(call: UpstreamCall, reader: AnswerReader): Exchange {
    return this.#exchange(this.#pathOf(call), call, reader, call.body);
  }

  /** Starts a GET for a path below the root of the server. */
  get(path: string, key: UpstreamKey, reader: AnswerReader): Exchange {
    return this.#exchange(path, { key, requestId: null }, reader, null);
  }

  /** Closes all connections; running requests fail. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  #exchange(
    path: string,
    call: Pick<UpstreamCall, "key" | "requestId" | "headers"> & { readonly operation?: UpstreamOperation },
    reader: AnswerReader,
    body: string | null,
  ): Exchange {
    // A request with a body is a client's; others belong to discovery and health checks.
    const clock = body === null ? this.#backgroundClock : this.#clock;
    const exchange = new Exchange(
      { pool: this.#pool, clock },
      { method: body === null ? "GET" : "POST", path, headers: this.#headers(call, body !== null), body },
      this.settings,
      reader,
    );
    exchange.start();
    return exchange;
  }

  #headers(
    {
      key,
      requestId,
      headers: further,
      operation,
    }: Pick<UpstreamCall, "key" | "requestId" | "headers"> & { readonly operation?: UpstreamOperation },
    hasBody: boolean,
  ): Record<string, string> {
    const headers: Record<string, string> = {
      accept: hasBody ? "text/event-stream, application/json" : "application/json",
      "user-agent": `unified-inference/${version}`,
    };
    if (hasBody) headers["content-type"] = "application/json";
    if (requestId !== null && requestId !== "") headers["x-request-id"] = requestId;
    const { api, credential } = this.profile;
    if (api === "messages" || operation === "messages") headers["anthropic-version"] = anthropicVersion;
    if (further !== undefined) Object.assign(headers, further);
    if (key.text !== null) {
      if (credential === "bearer") headers["authorization"] = `Bearer ${key.text}`;
      else headers[credential] = key.text;
    }
    for (const [name, value] of Object.entries(this.settings.headers)) headers[name] = value.reveal();
    return headers;
  }

  #pathOf({ operation, model }: UpstreamCall): string {
    const { kind, apiVersion } = this.settings;
    const base = this.#base.pathname.replace(/\/+$/, "");
    if (kind !== "azure") {
      const query = kind === "anthropic" && operation === "models" ? `?limit=${anthropicModelsMax}` : "";
      return `${base === "" ? "/v1" : base}/${operation}${query}`;
    }
    if (apiVersion === null) return `${base}/openai/v1/${operation}`;
    const query = `?api-version=${encodeURIComponent(apiVersion)}`;
    if (operation === "models") return `${base}/openai/models${query}`;
    return `${base}/openai/deployments/${encodeURIComponent(model)}/${operation}${query}`;
  }
}

/**
 * Runs attempts of one request with different keys: a key that the upstream rejects or limits is held, and the next one is
 * tried. No content is lost, because both answers come before any. If no key works, rejects with the error that has the
 * shortest wait, or with the last error.
 */
export async function withKeys<T>(
  keys: ModelKeys,
  tenant: string,
  attempt: (key: UpstreamKey) => Promise<T>,
): Promise<T> {
  const tried: UpstreamKey[] = [];
  let failure: EngineError | null = null;
  for (let key = keys.pick(tenant, tried); key !== null; key = keys.pick(tenant, tried)) {
    tried.push(key);
    const hold = keys.holdOf(key);
    try {
      const result = await attempt(key);
      keys.accepted(key, hold);
      return result;
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      if (error.code === "unauthorized") keys.rejected(key);
      else if (error.code === "forbidden") keys.forbidden(key);
      else if (error.code === "rate_limited") keys.limited(key, error.retryAfterMs);
      else throw error;
      if (failure === null || waitOf(error) <= waitOf(failure)) failure = error;
      if (tried.length >= keysPerRequestMax) break;
    }
  }
  throw failure ?? new EngineError("unauthorized", "the upstream has no usable key");
}

/** Milliseconds until the key is usable; infinite if it was rejected, because then no time is known. */
function waitOf({ code, retryAfterMs }: EngineError): number {
  return code === "rate_limited" ? (retryAfterMs ?? 0) : Number.POSITIVE_INFINITY;
}
