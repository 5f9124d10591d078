import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcDefinition } from "../../../src/lib/grpc-definition.js";
import { eventually } from "../../support/eventually.js";
import { startFleet } from "../../support/fleet/start-fleet.js";
import { GrpcClient } from "../../support/grpc-client.js";
import { makeCertificates } from "../../support/redis/certificates.js";
import { ServiceClient } from "../../support/service-client.js";
import type { RunningService } from "../../support/start-service.js";

it("with core.tls a core trusts gateways with a certificate of its CA, and rejects other connections (SEC-37)", async () => {
  const folder = mkdtempSync(join(tmpdir(), "uis-core-tls-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const { caFile, certFile, keyFile } = makeCertificates(folder);
  const tls = { ca_file: caFile, cert_file: certFile, key_file: keyFile };
  const fleet = await startFleet({ trust: { core: { tls }, gateway: { tls } } });
  onTestFinished(() => fleet.close());
  const { gateway } = fleet;
  const [core] = fleet.cores as [RunningService];
  const answer = await new ServiceClient(gateway.http, gateway.key).chat("test-chat");
  expect(answer.status).toBe(200);
  const id = answer.headers.get("x-request-id");
  await eventually(() => core.logs.some(({ request_id: logged, msg }) => msg === "request" && logged === id));
  const outside = new GrpcClient(grpcDefinition(InferenceService), core.grpc);
  onTestFinished(() => outside.close());
  const { status } = await outside.unary("createChatCompletion", {
    $typeName: "unified.inference.v1.CreateChatCompletionRequest",
  });
  expect(status.code).toBe(14);
});
