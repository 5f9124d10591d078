import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CreateChatCompletionRequestSchema } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcPath } from "../../../src/lib/grpc-definition.js";
import { errorFacts } from "../../support/grpc-client.js";
import { grpcFrame, RawGrpc, statusOf } from "../../support/raw-grpc.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { chatMethods, chatOf, createChatCompletion } from "./chat-requests.js";
import { openWay, type RpcWay, wayNames } from "./ways.js";

const mebibyte = 1024 * 1024;

describe("size limits of RPC messages and metadata", () => {
  let service: RunningService;
  let ways: readonly RpcWay[];
  beforeAll(async () => {
    service = await startService();
    ways = wayNames.map((name) => openWay(name, service));
  });
  afterAll(async () => {
    for (const way of ways) way.close();
    await service.close();
  });
  const wayOf = (name: string): RpcWay => ways.find((way) => way.name === name) ?? openWay("grpc", service);

  /** A prompt of one token with any number of bytes. */
  const longWord = (bytes: number) => chatOf("test-chat", {}, "x".repeat(bytes));

  it.each(wayNames)("allow a message of 5 MiB and reject one above 20 MiB over %s (SEC-5, GRPC-12)", async (name) => {
    const way = wayOf(name);
    for (const method of chatMethods) {
      expect((await way.call(method, longWord(5 * mebibyte))).failure, method.localName).toBeNull();
      const { failure } = await way.call(method, longWord(20 * mebibyte + 1));
      expect(failure, method.localName).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    }
    expect((await way.call(createChatCompletion, chatOf("test-chat"))).failure).toBeNull();
  });

  it("reject a large message with another reason than a rate limit (SEC-5, GRPC-12)", async () => {
    const { failure } = await wayOf("grpc").call(createChatCompletion, longWord(20 * mebibyte));
    expect(failure?.reason).toBe("REQUEST_TOO_LARGE");
    expect(failure?.retryDelayMs).toBeNull();
  });

  it("reject 40 KiB of metadata with a status, and another client is served (SEC-5)", async () => {
    const large = { "x-large": "a".repeat(40 * 1024) };
    const grpc = wayOf("grpc");
    const { failure } = await grpc.call(createChatCompletion, chatOf("test-chat"), { headers: large });
    expect(failure).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: "REQUEST_HEADERS_TOO_LARGE" });
    expect((await grpc.call(createChatCompletion, chatOf("test-chat"))).failure).toBeNull();

    const response = await fetch(service.http + grpcPath(createChatCompletion), {
      method: "POST",
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json", ...large },
      body: "{}",
    });
    expect(response.status).toBe(431);
  });

  it("reject a message that is above the limit after decompression, and another client is served (SEC-5, GRPC-12)", async () => {
    const request = create(CreateChatCompletionRequestSchema, longWord(200 * mebibyte));
    const bomb = grpcFrame(gzipSync(toBinary(CreateChatCompletionRequestSchema, request)), true);
    expect(bomb.length).toBeLessThan(mebibyte);
    const raw = new RawGrpc(service.grpc);
    const refused = raw.call(grpcPath(createChatCompletion), bomb, {
      authorization: `Bearer ${service.key}`,
      "grpc-encoding": "gzip",
    });
    const healthy = await wayOf("grpc").call(createChatCompletion, chatOf("test-chat"));
    expect(healthy.failure).toBeNull();
    expect(errorFacts(statusOf(await refused))).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      reason: "REQUEST_TOO_LARGE",
    });
    raw.close();
  });
});
