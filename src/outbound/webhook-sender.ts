import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { LookupFunction, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { createFairShares } from "../domain/call/fair-shares.js";
import type { AttemptError, SendResult, WebhookRequest, WebhookSender } from "../domain/webhooks/delivery.js";
import { AbortSource } from "../lib/abort-source.js";
import { AddressRules } from "../lib/address-rules.js";
import { BoundedMap } from "../lib/collections.js";
import { printable, printableLine } from "../lib/display-text.js";
import type { FairShare } from "../lib/fair-share.js";
import { BlockedAddress, Resolver } from "./resolver.js";
import { checkTarget, type Target, type TargetCheck, type TargetRules } from "./target.js";

export interface WebhookSenderOptions extends Omit<TargetRules, "addresses"> {
  /** Address ranges that are allowed although they are not public. Throws when one cannot be parsed. */
  readonly allowPrivateCidrs: readonly string[];
  /** Name servers, with or without a port; none: the system's hosts file and name servers. */
  readonly dnsServers: readonly string[];
  /** Bounds how many look-ups run at the same time, shared fairly between accounts. Default: a separate bound for webhooks. */
  readonly lookups?: FairShare;
  /** PEM of the certificate authorities to trust in place of Node's own list. */
  readonly ca?: string;
}

/**
 * Maximum number of URLs whose check is cached, because its result depends only on the URL and the configuration. The
 * addresses of host names are checked at each connection.
 */
const checkedUrlsMax = 1_000;
/** Time that a registration waits for the name in its URL to resolve. */
const registrationWaitMs = 2_000;

/** The only HTTP client for webhooks: every connection goes to an address that was checked. */
export function createWebhookSender(options: WebhookSenderOptions): WebhookSender {
  const addresses = new AddressRules(options.allowPrivateCidrs);
  const rules: TargetRules = { ...options, addresses };
  const { dnsServers, lookups: share = createFairShares().lookups } = options;
  const resolver = new Resolver(dnsServers, { rules: addresses, share });
  const connector = createConnector(resolver, options.ca);
  const running = new Set<Attempt>();
  const checkedUrls = new BoundedMap<string, TargetCheck>(checkedUrlsMax);
  const checkOf = (url: string): TargetCheck => {
    const known = checkedUrls.get(url);
    if (known !== undefined) return known;
    const check = checkTarget(url, rules);
    checkedUrls.set(url, check);
    return check;
  };
  let isClosed = false;
  return {
    send(request) {
      const check = checkOf(request.url);
      if (isClosed || "refusal" in check) {
        const error = isClosed ? "reset" : "blocked_address";
        return Promise.resolve({ latencyMs: 0, status: null, error, ip: null, response: null, retryAfter: null });
      }
      return new Promise((resolve) => {
        const attempt = new Attempt(check.target, request, connector, (result) => {
          running.delete(attempt);
          resolve(result);
        });
        running.add(attempt);
      });
    },

    async refusalOf(url, account) {
      const check = checkTarget(url, rules);
      if ("refusal" in check) return check.refusal;
      const { host, isAddress } = check.target;
      if (isAddress) return null;
      return new Promise((resolve) => {
        const over = new AbortSource();
        const settle = (refusal: string | null) => {
          clearTimeout(timer);
          over.abort(isOver);
          resolve(refusal);
        };
        const timer = setTimeout(settle, registrationWaitMs, null);
        const refusal = "The host name has an address that is not public, and the operator has not opened it.";
        resolver.addresses(host, account, over).then(
          () => settle(null),
          (error: unknown) => settle(error instanceof BlockedAddress ? refusal : null),
        );
      });
    },

    close() {
      isClosed = true;
      for (const attempt of running) attempt.stop();
      connector.close();
    },
  };
}

/**
 * Shorter than 5 s, after which many servers close idle connections, so that few requests use a socket that is being closed.
 */
const idleMs = 4_000;
/**
 * Equal to the maximum of attempts in flight to an endpoint, so that a steady stream of deliveries opens no new connections.
 */
const idlePerHostMax = 64;
/** Idle sockets of one agent, over all receivers. */
const idleMax = 256;
/** Maximum age of a reused socket, so that a receiver that moved to another address is found. */
const reusedForMs = 60_000;
/** Timeout of one address before the next is tried. Node's default of 250 ms is too short for distant receivers. */
const addressTimeoutMs = 1_000;

type Connector = ReturnType<typeof createConnector>;

/**
 * Connection pools. The number of sockets is bounded by the caller, who bounds the attempts. Proxy variables of the
 * environment are ignored.
 */
function createConnector(resolver: Resolver, ca: string | undefined) {
  const connection = {
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: addressTimeoutMs,
    // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED can turn verification off.
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
    ...(ca === undefined ? {} : { ca }),
  } as const;
  const pool = { ...connection, keepAlive: true, timeout: idleMs, maxFreeSockets: idlePerHostMax };
  const http = withBoundedIdle(new HttpAgent(pool));
  const https = withBoundedIdle(new HttpsAgent(pool));
  return {
    /** Options of a request; `isFresh`: the request uses a new socket, which is not reused. */
    options: ({ isSecure }: Target, isFresh: boolean, lookup: LookupFunction) => ({
      ...(isFresh ? { ...connection, agent: false } : { agent: isSecure ? https : http }),
      lookup,
    }),
    resolver,
    close() {
      http.destroy();
      https.destroy();
      resolver.close();
    },
  };
}

/** Bounds the number and age of idle sockets, and closes those that receive data without a request. */
function withBoundedIdle(agent: HttpAgent): HttpAgent {
  const firstIdleAtMs = new WeakMap<Duplex, number>();
  // Node uses the return value, which its types declare as void.
  const mayKeep = agent.keepSocketAlive.bind(agent) as (socket: Duplex) => boolean;
  const reuse = agent.reuseSocket.bind(agent);
  // Node reads from idle sockets without a bound, and its idle timeout never fires while data arrives.
  const closeOnData = function (this: Duplex): void {
    this.destroy();
  };

  agent.keepSocketAlive = (socket) => {
    const sinceMs = firstIdleAtMs.get(socket) ?? performance.now();
    firstIdleAtMs.set(socket, sinceMs);
    const idleCount = Object.values(agent.freeSockets).reduce((sum, sockets) => sum + (sockets?.length ?? 0), 0);
    if (performance.now() - sinceMs >= reusedForMs || idleCount >= idleMax || !mayKeep(socket)) return false;
    socket.on("data", closeOnData);
    return true;
  };

  agent.reuseSocket = (socket, request) => {
    socket.off("data", closeOnData);
    reuse(socket, request);
  };
  return agent;
}

/** Maximum bytes of a response's status line and headers, and of its body. */
const partBytesMax = 16 * 1_024;
/** Maximum number of 1xx responses before the final one. */
const informationalMax = 100;
const retryAfterCharactersMax = 64;
/** One object for all attempts, because creating an error takes microseconds. */
const isOver = new Error("the wait for the look-up is over");

/**
 * One POST. A single timeout covers everything from the name look-up to the last response header. The response head decides
 * the outcome; the start of the body is read only in the remaining time. A socket whose response was read to its end is
 * reused.
 */
class Attempt {
  readonly #target: Target;
  readonly #request: WebhookRequest;
  readonly #connector: Connector;
  readonly #done: (result: SendResult) => void;
  readonly #startedAtMs = performance.now();
  readonly #excerpt = new BodyExcerpt();
  readonly #timer: NodeJS.Timeout;
  #client: ClientRequest;
  #phase: AttemptPhase = "lookup";
  /** Bytes that the socket had read before this attempt. */
  #bytesReadBefore = 0;
  #informational = 0;
  #ip: string | null = null;
  #head: Pick<SendResult, "status" | "retryAfter" | "latencyMs"> | null = null;
  /** Aborted when the attempt ends, which also cancels a waiting look-up. */
  readonly #over = new AbortSource();

  /** Starts immediately. `done` is called once, after the constructor has returned. */
  constructor(target: Target, request: WebhookRequest, connector: Connector, done: (result: SendResult) => void) {
    this.#target = target;
    this.#request = request;
    this.#connector = connector;
    this.#done = done;
    this.#timer = setTimeout(() => this.#finish(this.#phase === "lookup" ? "dns" : "timeout"), request.budgetMs);
    this.#client = this.#send(false);
  }

  /** Ends the attempt as `reset`, or with the response whose body was being read. */
  stop(): void {
    this.#finish("reset");
  }

  #send(isFresh: boolean): ClientRequest {
    const { isSecure, isAddress, host, port, path, authority } = this.#target;
    const { account, headers, body } = this.#request;
    this.#phase = isAddress ? "connect" : "lookup";
    this.#ip = null;
    const lookup = this.#connector.resolver.forSocket(account, this.#over, () => {
      if (this.#phase === "lookup") this.#phase = "connect";
    });
    const client = (isSecure ? httpsRequest : httpRequest)({
      ...this.#connector.options(this.#target, isFresh, lookup),
      host,
      port,
      path,
      method: "POST",
      headers: { ...headers, host: authority, "content-length": Buffer.byteLength(body) },
      maxHeaderSize: partBytesMax,
    });
    client.on("socket", (socket) => this.#watch(client, socket));
    client.on("information", () => {
      if (++this.#informational > informationalMax) this.#finish("bad_response");
    });
    client.on("upgrade", (_, socket) => {
      socket.destroy();
      this.#finish("bad_response");
    });
    client.on("response", (response) => this.#read(response));
    client.on("error", (error) => this.#onError(client, error));
    client.end(body);
    return client;
  }

  #watch(client: ClientRequest, socket: Socket): void {
    const connected = (phase: AttemptPhase) => {
      this.#phase = phase;
      this.#ip = socket.remoteAddress ?? null;
    };
    this.#bytesReadBefore = socket.bytesRead;
    if (client.reusedSocket) {
      connected("answer");
      return;
    }
    socket.once("connect", () => connected(this.#target.isSecure ? "handshake" : "answer"));
    socket.once("secureConnect", () => connected("answer"));
  }

  #read(response: IncomingMessage): void {
    const { statusCode: status = 0, headers } = response;
    if (status < 200) this.#finish("bad_response");
    if (this.#over.aborted) return;
    const retryAfter = headers["retry-after"];
    this.#head = {
      status,
      retryAfter: retryAfter === undefined ? null : printableLine(retryAfter).slice(0, retryAfterCharactersMax),
      latencyMs: this.#elapsedMs(),
    };
    response.on("data", (chunk: Buffer) => {
      this.#excerpt.add(chunk);
      if (this.#excerpt.bytes > partBytesMax) this.#finish(null);
    });
    response.on("end", () => this.#finish(null, true));
    for (const event of ["error", "close"]) response.on(event, () => this.#finish(null));
  }

  #onError(client: ClientRequest, error: Error): void {
    if (client !== this.#client || this.#over.aborted) return;
    // The server closed an idle socket before it read the request (WH-24). The retry uses a fresh socket, so there is at
    // most one.
    const isUnseen = client.reusedSocket && client.socket?.bytesRead === this.#bytesReadBefore;
    if (this.#head === null && isUnseen) this.#client = this.#send(true);
    else this.#finish(attemptErrorOf(error, this.#phase));
  }

  /**
   * Ends the attempt. If a response head has arrived, its status is the result and `error` is ignored. `isRead`: the
   * response was read to its end, so the socket can be reused.
   */
  #finish(error: AttemptError | null, isRead = false): void {
    if (this.#over.aborted) return;
    this.#over.abort(isOver);
    clearTimeout(this.#timer);
    if (!isRead) this.#client.destroy();
    const ip = error === "blocked_address" ? null : this.#ip;
    this.#done(
      this.#head === null
        ? { latencyMs: this.#elapsedMs(), status: null, error, ip, response: null, retryAfter: null }
        : { ...this.#head, error: null, ip: this.#ip, response: this.#excerpt.text() },
    );
  }

  #elapsedMs(): number {
    return Math.round(performance.now() - this.#startedAtMs);
  }
}

const excerptBytesMax = 2_048;

/** The beginning of a response's body. */
export class BodyExcerpt {
  #kept = Buffer.alloc(0);
  /** Bytes of the body so far, including those that were not kept. */
  bytes = 0;

  add(chunk: Buffer): void {
    this.bytes += chunk.length;
    const missing = excerptBytesMax - this.#kept.length;
    if (missing > 0) this.#kept = Buffer.concat([this.#kept, chunk.subarray(0, missing)]);
  }

  /**
   * The first 2 KiB as UTF-8 text of at most 2 KiB, without control characters and without a character that is incomplete at
   * the end.
   */
  text(): string {
    if (this.bytes === 0) return "";
    const text = printable(new TextDecoder().decode(this.#kept, { stream: true }));
    // Replacement characters (U+FFFD) take more bytes than the bytes that they replace.
    const { read } = new TextEncoder().encodeInto(text, new Uint8Array(excerptBytesMax));
    return text.slice(0, read);
  }
}

export type AttemptPhase = "lookup" | "connect" | "handshake" | "answer";

/** The peer ended an established connection. */
const resets = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);
/** The network lost an established connection. */
const losses = new Set(["ETIMEDOUT", "ENETRESET", "EHOSTUNREACH", "ENETUNREACH"]);

/** Classifies an error that Node reports in a phase of an attempt. */
export function attemptErrorOf(error: Error, phase: AttemptPhase): AttemptError {
  const code = String((error as NodeJS.ErrnoException).code ?? "");
  switch (phase) {
    case "lookup":
      return error instanceof BlockedAddress ? "blocked_address" : "dns";
    case "connect":
      // A reset right after the connection was established can be reported before the connection itself.
      return resets.has(code) ? "reset" : "connect";
    case "handshake":
      return resets.has(code) || losses.has(code) ? "reset" : "tls";
    case "answer":
      if (code.startsWith("HPE_")) return "bad_response";
      return code.startsWith("ERR_SSL_") || code.startsWith("ERR_TLS_") || code === "EPROTO" ? "tls" : "reset";
  }
}
