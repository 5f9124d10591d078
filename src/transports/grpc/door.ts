import { Server, type ServerInterceptor, type ServerOptions } from "@grpc/grpc-js";
import type { ServiceLimits } from "../../contract/limits.js";
import type { Clock } from "../../domain/call/ports.js";
import type { RpcService } from "../../domain/rpc/rpc-service.js";
import type { TlsFiles } from "../../lib/network.js";
import { boundedDefinition } from "./bounded-definition.js";
import { OpenCalls } from "./call.js";
import { grpcHandlers } from "./handlers.js";
import { unknownRpcPath } from "./http2-sessions.js";
import { createOpenInterceptor, type OpenInterceptorDeps } from "./interceptor.js";
import { GrpcListener } from "./listener.js";
import { addReflection, Health, OpenWatches } from "./standard-services.js";

export interface GrpcDoorDeps extends OpenInterceptorDeps {
  readonly services: readonly RpcService[];
  readonly limits: ServiceLimits;
  /** Whether clients may ask for the descriptors of the services. */
  readonly reflection: boolean;
  /** For timers of connections, which are not those of requests. Default: the clock of requests. */
  readonly connectionClock?: Clock;
  /** Null: plain text. */
  readonly tls: TlsFiles | null;
}

export interface GrpcDoor {
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
export function createGrpcDoor(deps: GrpcDoorDeps): GrpcDoor {
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
  const listener = new GrpcListener(server, deps.tls, deps.connectionClock ?? deps.clock);

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
