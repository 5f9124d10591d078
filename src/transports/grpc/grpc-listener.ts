import { type AddressInfo, createServer, type Socket } from "node:net";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import { Server, ServerCredentials, type ServerInterceptor, type ServerOptions } from "@grpc/grpc-js";
import type { ServiceLimits } from "../../contract/limits.js";
import { Ended } from "../../domain/call/call-context.js";
import type { Clock } from "../../domain/call/ports.js";
import type { RpcService } from "../../domain/rpc/rpc-service.js";
import { MemberList } from "../../lib/collections.js";
import type { TlsFiles } from "../../lib/network.js";
import type { ConnectionLimit } from "../http/connection-limit.js";
import type { OpenCall } from "./call.js";
import { boundedDefinition, grpcHandlers } from "./handlers.js";
import { keepSessions, unknownRpcPath } from "./http2.js";
import { createOpenInterceptor, type OpenInterceptorDeps } from "./interceptor.js";
import { addHealth, addReflection, OpenWatches } from "./standard-services.js";

export interface GrpcListenerDeps extends OpenInterceptorDeps {
  readonly services: readonly RpcService[];
  readonly limits: ServiceLimits;
  /** Streams per connection. */
  readonly streamsMax: number;
  /** Whether clients may ask for the descriptors of the services. */
  readonly reflection: boolean;
  /** Clock for timers of connections, so that `clock` has only the timers of requests. Default: `clock`. */
  readonly connectionClock?: Clock;
  /** Null: plain text. */
  readonly tls: TlsFiles | null;
  /** Null: connections are not limited. */
  readonly connectionLimit: ConnectionLimit | null;
}

/** Time for clients to read their last status, after the grace time of a drain. */
const lastStatusMs = 1_000;

/** TCP keepalive finds lost clients of sessions that can no longer be pinged. */
const socketOptions = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000 } as const;

/**
 * Serves the protobuf services as gRPC over HTTP/2. Sockets are accepted here and injected, because grpc-js hides why it
 * cannot listen on a port, does not count connections and does not report when the last one is closed.
 */
export function createGrpcListener(deps: GrpcListenerDeps) {
  const { services, limits, clock, connectionClock = clock } = deps;
  const calls = new MemberList<OpenCall>();
  const watches = new OpenWatches();
  const grpc = new Server(serverOptions(deps, createOpenInterceptor(deps, services, calls, watches)));
  for (const service of services) {
    grpc.addService(boundedDefinition(service.desc, limits), grpcHandlers(service));
  }
  const descriptors = services.map(({ desc }) => desc);
  const setServing = addHealth(grpc, descriptors);
  if (deps.reflection) addReflection(grpc, descriptors);
  // Never called: the interceptor rejects the call on its metadata.
  grpc.register(
    unknownRpcPath,
    () => {},
    () => Buffer.alloc(0),
    () => ({}),
    "unary",
  );
  const tls = deps.tls === null ? null : new TlsCredentials(deps.tls);
  const injector = grpc.createConnectionInjector(tls ?? ServerCredentials.createInsecure());
  const sessions = keepSessions(grpc, connectionClock);
  const sockets = new Set<Socket>();
  let onGone: (() => void)[] = [];
  const tcp = createServer(socketOptions, (socket) => {
    // Clients get UNAVAILABLE and reconnect after a backoff, as they do when a server restarts.
    if (deps.connectionLimit?.enter(socket) === false) {
      socket.destroy();
      return;
    }
    sockets.add(socket);
    socket.once("close", () => {
      sockets.delete(socket);
      if (!isGone()) return;
      for (const gone of onGone) gone();
      onGone = [];
    });
    injector.injectConnection(socket);
  });

  function isGone(): boolean {
    return !tcp.listening && sockets.size === 0;
  }

  async function within(ms: number, event: Promise<void>): Promise<boolean> {
    let cancel = (): void => {};
    const late = new Promise<false>((resolve) => {
      cancel = connectionClock.after(ms, () => resolve(false));
    });
    const inTime = await Promise.race([event.then(() => true), late]);
    cancel();
    return inTime;
  }

  return {
    /** Resolves with the port; rejects with the error of node:net, e.g. EADDRINUSE. */
    listen(host: string, port: number): Promise<number> {
      return new Promise((resolve, reject) => {
        tcp.once("error", reject);
        tcp.listen(port, host, () => {
          tcp.off("error", reject);
          resolve((tcp.address() as AddressInfo).port);
        });
      });
    },

    /** Number of open connections. */
    connections: () => sockets.size,

    /** Sets the status of the server and of each service in `grpc.health.v1.Health`; it is NOT_SERVING at first. */
    setServing,

    /**
     * Refuses new connections and lets running calls finish for `graceMs`, then ends them as UNAVAILABLE. Resolves when
     * the last connection is closed. Draining again with a shorter grace time shortens the drain.
     */
    async drain(graceMs: number): Promise<void> {
      setServing(false);
      watches.endAll();
      if (tcp.listening) tcp.close();
      const gone = isGone() ? Promise.resolve() : new Promise<void>((resolve) => onGone.push(resolve));
      sessions.drain();
      if (!(await within(graceMs, gone))) {
        for (const call of calls.all()) call.abort.abort(new Ended("shutting_down"));
        if (!(await within(lastStatusMs, gone))) for (const socket of sockets) socket.destroy();
      }
      await gone;
      grpc.forceShutdown();
    },

    /**
     * Makes new connections use the new files. Throws and changes nothing when certificate and key do not fit together, or
     * when the change would switch TLS or client certificates on or off, which needs a restart.
     */
    reloadTls(files: TlsFiles): void {
      if (tls === null) throw new Error("the gRPC listener was started without TLS");
      if ((files.clientCa === null) !== (deps.tls?.clientCa === null)) {
        throw new Error("client certificates cannot be switched on or off while the gRPC listener runs");
      }
      tls.use(files);
    },
  };
}

function serverOptions(
  { limits, streamsMax }: Pick<GrpcListenerDeps, "limits" | "streamsMax">,
  interceptor: ServerInterceptor,
): ServerOptions {
  return {
    interceptors: [interceptor],
    "grpc.enable_channelz": 0,
    // A getter: grpc-js reads it at each call, so a changed limit applies to the next one.
    get "grpc.max_receive_message_length"() {
      return limits.bodyBytesMax;
    },
    "grpc.max_send_message_length": -1,
    "grpc.max_concurrent_streams": streamsMax,
  };
}

/** Timeout of a TLS handshake. */
const handshakeTimeoutMs = 10_000;

/** TLS 1.2 or newer. The files can be replaced while connections are open. */
class TlsCredentials extends ServerCredentials {
  constructor(files: TlsFiles) {
    const requestCert = files.clientCa !== null;
    const options = { requestCert, rejectUnauthorized: requestCert, handshakeTimeout: handshakeTimeoutMs };
    super(options, contextOptions(files));
  }

  use(files: TlsFiles): void {
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
