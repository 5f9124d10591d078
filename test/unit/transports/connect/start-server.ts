import http from "node:http";
import type { AddressInfo } from "node:net";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { onTestFinished } from "vitest";
import { InferenceService } from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { defaultLimits, type ServiceLimits } from "../../../../src/contract/limits.js";
import { createCatalogService, createInferenceService } from "../../../../src/domain/rpc/inference-service.js";
import { createSystemClock } from "../../../../src/lib/clock.js";
import { createRandomIds } from "../../../../src/lib/crypto.js";
import { type ConnectDeps, createConnectRoutes } from "../../../../src/transports/connect/routes.js";
import { createResponseWatch } from "../../../../src/transports/http/answer.js";
import { BodyBudget, createUploadWatch } from "../../../../src/transports/http/body.js";
import { RouteTable } from "../../../../src/transports/http/routes.js";
import { HandCore, handCredential } from "../../../support/hand-core.js";
import { silentLog } from "../../../support/silent-log.js";

/** All protocols that are served. */
export const protocols = ["connect json", "connect binary", "grpc-web"] as const;
export type ProtocolName = (typeof protocols)[number];

const authorize: Interceptor = (next) => (req) => {
  req.header.set("authorization", handCredential);
  return next(req);
};

export function clientOf(protocol: ProtocolName, baseUrl: string) {
  const options = { baseUrl, httpVersion: "1.1" as const, interceptors: [authorize] };
  const transport =
    protocol === "grpc-web"
      ? createGrpcWebTransport(options)
      : createConnectTransport({ ...options, useBinaryFormat: protocol === "connect binary" });
  return createClient(InferenceService, transport);
}

/** Starts a plain HTTP server with the Connect routes and a test core. It is closed after the test. */
export async function startServer(
  options: Partial<Omit<ConnectDeps, "limits">> & { limits?: Partial<ServiceLimits> } = {},
) {
  const core = new HandCore();
  const clock = createSystemClock();
  const limits = { ...defaultLimits, ...options.limits };
  const bodies = new BodyBudget(limits);
  const watch = createResponseWatch(limits, () => clock.monotonic());
  const uploads = createUploadWatch(limits, () => clock.monotonic());
  const routes = createConnectRoutes({
    core,
    services: [createInferenceService(core, limits), createCatalogService(core)],
    clock,
    ids: createRandomIds(),
    log: silentLog,
    bodies,
    uploads,
    watch,
    ...options,
    limits,
  });
  const { serve } = new RouteTable(routes.routes, (req, res) => {
    if (!routes.refuseUnknown(req, res)) res.writeHead(404).end("fallback");
  });
  const server = http.createServer(serve).on("checkContinue", serve);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  onTestFinished(async () => {
    watch.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { core, url, bodies, watch, server, client: (protocol: ProtocolName) => clientOf(protocol, url) };
}
