import { create, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { CatalogService } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import {
  CreateEmbeddingsRequestSchema,
  CreateEmbeddingsResponseSchema,
  InferenceService,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcDefinition, grpcPath } from "../../../src/lib/grpc-definition.js";

const { createEmbeddings } = grpcDefinition(InferenceService);

describe("grpcDefinition", () => {
  it("has every RPC under its lower-camel name, with its path and direction (GRPC-1)", () => {
    const definition = grpcDefinition(CatalogService);
    expect(Object.keys(definition)).toEqual(["listModels", "getModel", "watchModels"]);
    expect(definition["watchModels"]).toMatchObject({
      path: "/unified.catalog.v1.CatalogService/WatchModels",
      requestStream: false,
      responseStream: true,
    });
    expect(definition["getModel"]).toMatchObject({ requestStream: false, responseStream: false });
    expect(grpcPath(CatalogService.method.getModel)).toBe("/unified.catalog.v1.CatalogService/GetModel");
  });

  it("restores messages from their serialized bytes (GRPC-1)", () => {
    const request = create(CreateEmbeddingsRequestSchema, { params: { model: "m", input: ["a", "b"] } });
    expect(createEmbeddings?.requestDeserialize(createEmbeddings.requestSerialize(request))).toEqual(request);
    const response = create(CreateEmbeddingsResponseSchema, {
      embeddings: { model: "m", data: [{ index: 0, vector: new Uint8Array([1, 2, 3, 4]) }] },
    });
    const bytes = createEmbeddings?.responseSerialize(response);
    expect(bytes).toBeInstanceOf(Buffer);
    expect(bytes?.equals(toBinary(CreateEmbeddingsResponseSchema, response))).toBe(true);
    expect(createEmbeddings?.responseDeserialize(bytes ?? Buffer.alloc(0))).toEqual(response);
  });

  it("throws for bytes that are not a message", () => {
    expect(() => createEmbeddings?.requestDeserialize(Buffer.from("ffff", "hex"))).toThrow();
  });
});
