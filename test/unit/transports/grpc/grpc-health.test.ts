import { status } from "@grpc/grpc-js";
import { service as healthDefinition } from "grpc-health-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { CatalogService } from "../../../../gen/unified/catalog/v1/catalog_service_pb.js";
import { InferenceService } from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { GrpcClient } from "../../../support/grpc-client.js";
import { startDoor } from "./start-door.js";

interface HealthAnswer {
  readonly status: string;
}

async function startHealth() {
  const started = await startDoor();
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

  it("says NOT_SERVING when told so", async () => {
    const { check, door } = await startHealth();
    door.setServing(false);
    for (const service of ["", InferenceService.typeName]) {
      expect(await check(service), service).toEqual({ code: status.OK, status: "NOT_SERVING" });
    }
  });

  it("a watch sees NOT_SERVING when the server drains, and does not hold it up (GRPC-17)", async () => {
    const { client, door } = await startHealth();
    const watch = client.stream("Watch", { service: "" });
    const seen: string[] = [];
    const ended = new Promise<{ code: number }>((resolve) => watch.once("status", resolve));
    await new Promise<void>((resolve) =>
      watch.on("data", (answer: HealthAnswer) => {
        seen.push(answer.status);
        resolve();
      }),
    );
    await door.drain(60_000);
    expect((await ended).code).toBe(status.UNAVAILABLE);
    expect(seen).toEqual(["SERVING", "NOT_SERVING"]);
  });
});
