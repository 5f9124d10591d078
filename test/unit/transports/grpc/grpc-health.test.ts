import { Client, credentials, status } from "@grpc/grpc-js";
import { service as healthDefinition } from "grpc-health-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { CatalogService } from "../../../../gen/unified/catalog/v1/catalog_service_pb.js";
import { InferenceService } from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { GrpcClient } from "../../../support/grpc-client.js";
import { startListener } from "./start-listener.js";

interface HealthAnswer {
  readonly status: string;
}

async function startHealth() {
  const started = await startListener();
  const client = new GrpcClient(healthDefinition, started.address);
  onTestFinished(() => client.close());
  const check = async (service: string) => {
    const { messages, status: end } = await client.unary<HealthAnswer>("Check", { service });
    return { code: end.code, status: messages[0]?.status };
  };
  return { ...started, client, check };
}

describe("grpc.health.v1.Health", () => {
  it("answers without a credential, for the server and for each service (SEC-28, GRPC-17)", async () => {
    const { check, core } = await startHealth();
    for (const service of ["", InferenceService.typeName, CatalogService.typeName]) {
      expect(await check(service), service).toEqual({ code: status.OK, status: "SERVING" });
    }
    expect((await check("no.such.Service")).code).toBe(status.NOT_FOUND);
    expect(core.calls).toHaveLength(0);
  });

  it("reports NOT_SERVING when set so", async () => {
    const { check, listener } = await startHealth();
    listener.setServing(false);
    for (const service of ["", InferenceService.typeName]) {
      expect(await check(service), service).toEqual({ code: status.OK, status: "NOT_SERVING" });
    }
  });

  it("ends a Watch with its final status if NOT_SERVING was set before the drain (GRPC-17)", async () => {
    const { client, listener } = await startHealth();
    const watch = client.stream("Watch", { service: "" });
    const ended = new Promise<{ code: number; details: string }>((resolve) => watch.once("status", resolve));
    const isServing = new Promise((resolve) => watch.once("data", resolve));
    await isServing;
    listener.setServing(false);
    await listener.drain(60_000);
    expect(await ended).toMatchObject({ code: status.UNAVAILABLE, details: "The service is stopping." });
  });

  it("sends NOT_SERVING to a Watch when the server drains, and the Watch does not delay the drain (GRPC-17)", async () => {
    const { client, listener } = await startHealth();
    const watch = client.stream("Watch", { service: "" });
    const seen: string[] = [];
    const ended = new Promise<{ code: number }>((resolve) => watch.once("status", resolve));
    await new Promise<void>((resolve) =>
      watch.on("data", (answer: HealthAnswer) => {
        seen.push(answer.status);
        resolve();
      }),
    );
    await listener.drain(60_000);
    expect((await ended).code).toBe(status.UNAVAILABLE);
    expect(seen).toEqual(["SERVING", "NOT_SERVING"]);
  });
});

describe("gRPC server reflection", () => {
  it.each([
    ["google.rpc.ErrorInfo", "google/rpc/error_details.proto"],
    ["google.rpc.Status", "google/rpc/status.proto"],
    ["grpc.health.v1.Health", "grpc_health_v1.proto"],
    [InferenceService.typeName, "unified/inference/v1/inference_service.proto"],
  ])("serves %s (GRPC-18)", async (symbol, file) => {
    const { address } = await startListener({ reflection: true });
    const client = new Client(address, credentials.createInsecure());
    onTestFinished(() => client.close());
    const same = (bytes: Buffer): Buffer => bytes;
    const path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    const call = client.makeBidiStreamRequest<Buffer, Buffer>(path, same, same);
    const answer = new Promise<Buffer>((resolve) => call.once("data", resolve));
    // ServerReflectionRequest with file_containing_symbol, field 4.
    call.end(Buffer.concat([Buffer.of(0x22, symbol.length), Buffer.from(symbol)]));
    // For an unknown symbol the answer is an error without the file.
    expect((await answer).toString("latin1")).toContain(file);
  });
});
