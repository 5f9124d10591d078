import { onTestFinished } from "vitest";
import { InferenceService } from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { defaultLimits, type ServiceLimits } from "../../../../src/contract/limits.js";
import { createCatalogService, createInferenceService } from "../../../../src/domain/rpc/inference-service.js";
import { createSystemClock } from "../../../../src/lib/clock.js";
import { createRandomIds } from "../../../../src/lib/crypto.js";
import { grpcDefinition } from "../../../../src/lib/grpc-definition.js";
import { createGrpcListener, type GrpcListenerDeps } from "../../../../src/transports/grpc/grpc-listener.js";
import { BodyBudget, createUploadWatch } from "../../../../src/transports/http/body.js";
import { GrpcClient, metadataOf } from "../../../support/grpc-client.js";
import { HandCore, handCredential } from "../../../support/hand-core.js";
import { silentLog } from "../../../support/silent-log.js";

type ListenerOptions = Partial<Omit<GrpcListenerDeps, "limits">> & { limits?: Partial<ServiceLimits>; port?: number };

/** Starts a gRPC listener with a test core, and a client. Both are closed after the test. */
export async function startListener(options: ListenerOptions = {}) {
  const started = await openListener(options);
  onTestFinished(started.close);
  return started;
}

/** `startListener` outside of a test: the caller closes both. */
export async function openListener({ port: wantedPort = 0, ...options }: ListenerOptions = {}) {
  const core = new HandCore();
  const clock = createSystemClock();
  const limits = { ...defaultLimits, ...options.limits };
  const bodies = new BodyBudget(limits);
  const uploads = createUploadWatch(limits, () => clock.monotonic());
  const listener = createGrpcListener({
    bodies,
    uploads,
    core,
    services: [createInferenceService(core, limits), createCatalogService(core)],
    clock,
    connectionClock: options.clock ?? clock,
    ids: createRandomIds(),
    log: silentLog,
    reflection: false,
    tls: null,
    connectionLimit: null,
    forwarded: null,
    streamsMax: limits.grpcStreamsMax,
    ...options,
    limits,
  });
  listener.setServing(true);
  const port = await listener.listen("127.0.0.1", wantedPort);
  const address = `127.0.0.1:${port}`;
  const client = new GrpcClient(grpcDefinition(InferenceService), address);
  const close = async (): Promise<void> => {
    client.close();
    await listener.drain(0);
    uploads.close();
  };
  return { core, listener, client, address, port, bodies, close };
}

export const good = () => metadataOf({ authorization: handCredential });
