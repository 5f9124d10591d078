import { createServer, type Socket } from "node:net";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import {
  type ConnectionInjector,
  Server,
  ServerCredentials,
  type ServerInterceptor,
  type ServerOptions,
} from "@grpc/grpc-js";
import type { ServiceLimits } from "../../contract/limits.js";
import type { Clock } from "../../domain/call/ports.js";
import type { RpcService } from "../../domain/rpc/rpc-service.js";
import type { TlsFiles } from "../../lib/network.js";
import { OpenCalls } from "./call.js";
import { boundedDefinition, grpcHandlers } from "./handlers.js";
import { Http2Sessions, unknownRpcPath } from "./http2-sessions.js";
import { createOpenInterceptor, type OpenInterceptorDeps } from "./interceptor.js";
import { addReflection, Health, OpenWatches } from "./standard-services.js";

export interface GrpcListenerDeps extends OpenInterceptorDeps {
  readonly services: readonly RpcService[];
  readonly limits: ServiceLimits;
  /** Whether clients may ask for the descriptors of the services. */
  readonly reflection: boolean;
  /** For timers of connections, which are not those of requests. Default: the clock of requests. */
  readonly connectionClock?: Clock;
  /** Null: plain text. */
  readonly tls: TlsFiles | null;
}

export interface GrpcListener {
  /** Resolves with the port; rejects as node:net does, e.g. with EADDRINUSE. */
  listen(host: string, port: number): Promise<number>;
  connections(): number;
  /** Sets the status in `grpc.health.v1.Health` of the server and each service; NOT_SERVING at first. */
  setServing(on: boolean): void;
  /**
   * Refuses new connections and lets running calls finish for `graceMs`, then ends them as UNAVAILABLE. Resolves when
   * the last connection is closed.
   */
  drain(graceMs: number): Promise<void>;
  /** New connections use the new files. Throws, and changes nothing, when they cannot be used. */
  reloadTls(tls: TlsFiles): void;
}

/** Serves the protobuf services as gRPC over HTTP/2. */
export function createGrpcListener(deps: GrpcListenerDeps): GrpcListener {
  const { services } = deps;
  const calls = new OpenCalls();
  const watches = new OpenWatches();
  const server = new Server(serverOptions(deps.limits, createOpenInterceptor(deps, services, calls, watches)));
  for (const service of services)
    server.addService(boundedDefinition(service.desc, deps.limits), grpcHandlers(service, calls));
  const descriptors = services.map(({ desc }) => desc);
  const health = new Health(server, descriptors);
  if (deps.reflection) addReflection(server, descriptors);
  // Never called: the interceptor rejects the call on its metadata.
  server.register(
    unknownRpcPath,
    () => {},
    () => Buffer.alloc(0),
    () => ({}),
    "unary",
  );
  const listener = new GrpcSockets(server, deps.tls, deps.connectionClock ?? deps.clock);

  return {
    listen: (host, port) => listener.listen(host, port),
    connections: () => listener.connections,
    setServing: (on) => health.setServing(on),
    async drain(graceMs) {
      health.setServing(false);
      watches.endAll();
      await listener.drain(graceMs, () => calls.abortAll("shutting_down"));
    },
    reloadTls: (tls) => listener.reloadTls(tls),
  };
}

function serverOptions(limits: ServiceLimits, interceptor: ServerInterceptor): ServerOptions {
  return {
    interceptors: [interceptor],
    "grpc.enable_channelz": 0,
    // A getter: grpc-js reads it at each call, so a changed limit applies to the next one.
    get "grpc.max_receive_message_length"() {
      return limits.bodyBytesMax;
    },
    "grpc.max_send_message_length": -1,
    "grpc.max_concurrent_streams": limits.grpcStreamsMax,
  };
}

/** After the grace time of a drain: time for clients to read their last status. */
const lastWordsMs = 1_000;

/** TCP keepalive finds lost clients of sessions that can no longer be pinged. */
const socketOptions = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000 } as const;

/**
 * The sockets of a grpc-js server. They are accepted here and injected, because grpc-js hides why it cannot listen on a
 * port, does not count connections and does not report when the last one is closed.
 */
class GrpcSockets {
  readonly #grpc: Server;
  readonly #clock: Clock;
  readonly #tls: TlsCredentials | null;
  readonly #injector: ConnectionInjector;
  readonly #sessions: Http2Sessions;
  readonly #sockets = new Set<Socket>();
  readonly #tcp = createServer(socketOptions, (socket) => this.#accept(socket));
  readonly #onGone: (() => void)[] = [];

  constructor(grpc: Server, tls: TlsFiles | null, clock: Clock) {
    this.#grpc = grpc;
    this.#clock = clock;
    this.#tls = tls === null ? null : new TlsCredentials(tls);
    this.#injector = grpc.createConnectionInjector(this.#tls ?? ServerCredentials.createInsecure());
    this.#sessions = new Http2Sessions(grpc, clock);
  }

  get connections(): number {
    return this.#sockets.size;
  }

  /** Resolves with the port. */
  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#tcp.once("error", reject);
      this.#tcp.listen(port, host, () => {
        this.#tcp.off("error", reject);
        const address = this.#tcp.address();
        resolve(typeof address === "object" && address !== null ? address.port : port);
      });
    });
  }

  /**
   * `graceOver` must end the calls that are still running. Resolves when the last connection is closed. Draining again
   * with a shorter grace time shortens the drain.
   */
  async drain(graceMs: number, graceOver: () => void): Promise<void> {
    const gone = this.#stopAccepting();
    this.#sessions.drain();
    if (!(await this.#within(graceMs, gone))) {
      graceOver();
      if (!(await this.#within(lastWordsMs, gone))) for (const socket of this.#sockets) socket.destroy();
    }
    await gone;
    this.#grpc.forceShutdown();
  }

  reloadTls(files: TlsFiles): void {
    if (this.#tls === null) throw new Error("the gRPC listener was started without TLS");
    this.#tls.reload(files);
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      if (this.#isGone()) for (const gone of this.#onGone.splice(0)) gone();
    });
    this.#injector.injectConnection(socket);
  }

  #isGone(): boolean {
    return !this.#tcp.listening && this.#sockets.size === 0;
  }

  /** Resolves when the last connection is closed. */
  #stopAccepting(): Promise<void> {
    if (this.#tcp.listening) this.#tcp.close();
    if (this.#isGone()) return Promise.resolve();
    return new Promise((resolve) => this.#onGone.push(resolve));
  }

  async #within(ms: number, event: Promise<void>): Promise<boolean> {
    let cancel = (): void => {};
    const late = new Promise<false>((resolve) => {
      cancel = this.#clock.after(ms, () => resolve(false));
    });
    const inTime = await Promise.race([event.then(() => true), late]);
    cancel();
    return inTime;
  }
}

/** Timeout of a TLS handshake. */
const handshakeTimeoutMs = 10_000;

/** TLS 1.2 or newer. The files can be replaced while connections are open. */
class TlsCredentials extends ServerCredentials {
  readonly #asksForCertificate: boolean;

  constructor(files: TlsFiles) {
    const asksForCertificate = files.clientCa !== null;
    super(
      { requestCert: asksForCertificate, rejectUnauthorized: asksForCertificate, handshakeTimeout: handshakeTimeoutMs },
      contextOptions(files),
    );
    this.#asksForCertificate = asksForCertificate;
  }

  /**
   * New connections use the new files. Throws, and changes nothing, when they do not fit together, or when client
   * certificates are switched on or off: that needs a restart.
   */
  reload(files: TlsFiles): void {
    if ((files.clientCa !== null) !== this.#asksForCertificate) {
      throw new Error("client certificates cannot be switched on or off while the gRPC listener runs");
    }
    const options = contextOptions(files);
    // grpc-js would only log an unusable context and refuse all connections from then on.
    createSecureContext(options);
    this.updateSecureContextOptions(options);
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

function contextOptions({ cert, key, clientCa }: TlsFiles): SecureContextOptions {
  return { cert, key, minVersion: "TLSv1.2", ...(clientCa === null ? {} : { ca: clientCa }) };
}
