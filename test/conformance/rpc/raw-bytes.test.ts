import type { Readable } from "node:stream";
import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StreamChatCompletionRequestSchema } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcPath } from "../../../src/lib/grpc-definition.js";
import { connectErrorOf, envelope, request, startRequest } from "../../support/connect-http.js";
import { eventually } from "../../support/eventually.js";
import { grpcFrame, RawGrpc, statusOf } from "../../support/raw-grpc.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { chatMethods, chatOf, createChatCompletion, streamChatCompletion } from "./chat-requests.js";
import { openWay } from "./ways.js";

const rubbish = Buffer.from("ffffffffffffffff", "hex");
const tokens = 64 * 128;
const sixtyFourMebibytes = Array.from({ length: tokens }, () => "x".repeat(8 * 1024 - 1)).join(" ");

describe("malformed requests that client libraries do not send", () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.close());
  const authorized = (type: string) => ({ authorization: `Bearer ${service.key}`, "content-type": type });

  it("are rejected on gRPC for a message that cannot be decoded (GRPC-13)", async () => {
    const raw = new RawGrpc(service.grpc);
    for (const method of chatMethods) {
      const { authorization } = authorized("");
      expect(statusOf(await raw.call(grpcPath(method), grpcFrame(rubbish), { authorization })).code).toBe(
        status.INTERNAL,
      );
    }
    raw.close();
  });

  it("are rejected on Connect for a message that cannot be decoded (GRPC-13)", async () => {
    const unary = service.http + grpcPath(createChatCompletion);
    for (const [type, body] of [
      ["application/json", "{"],
      ["application/json", '{"params":{"temperature":"warm"}}'],
      ["application/json", '{"params":{"messages":[{"role":"ROLE_ALIEN"}]}}'],
      ["application/proto", rubbish],
    ] as const) {
      const answer = await request(unary, authorized(type), body);
      expect(answer.status, String(body)).toBe(type === "application/json" ? 400 : 500);
      expect(answer.headers["x-request-id"]).toMatch(/^req_/);
    }
    const streamed = await request(
      service.http + grpcPath(streamChatCompletion),
      authorized("application/connect+json"),
      envelope(Buffer.from("{")),
    );
    expect(connectErrorOf(streamed).code).toBe(status.INVALID_ARGUMENT);
  });

  it("are rejected on gRPC-Web for a message that cannot be decoded (GRPC-13)", async () => {
    const url = service.http + grpcPath(createChatCompletion);
    const { headers } = await request(url, authorized("application/grpc-web+proto"), envelope(rubbish));
    expect(headers["grpc-status"]).toBe(String(status.INTERNAL));
  });

  it("leave no running call, and a valid request is served afterwards (GRPC-13)", async () => {
    const { requests, streams, timers } = await service.debugState();
    expect({ requests, streams, timers }).toMatchObject({
      requests: { running: 0, waiting: 0 },
      streams: 0,
      timers: 0,
    });
    expect((await openWay("grpc", service).call(createChatCompletion, chatOf("test-chat"))).failure).toBeNull();
  });
});

describe("streams whose client does not read", () => {
  const stallMs = 500;
  let service: RunningService;
  beforeAll(async () => {
    service = await startService({
      config: {
        limits: { stall: `${stallMs}ms` },
        models: [{ id: "m", engine: "scripted", scripted: { text: sixtyFourMebibytes } }],
      },
    });
  });
  afterAll(() => service.close());

  const message = toBinary(
    StreamChatCompletionRequestSchema,
    create(StreamChatCompletionRequestSchema, chatOf("m", {}, "Go on.")),
  );
  const path = grpcPath(streamChatCompletion);

  /** Starts a stream whose client reads only its headers. */
  const ways: Readonly<Record<string, () => { close(): void }>> = {
    grpc: () => {
      const raw = new RawGrpc(service.grpc);
      const stream = raw.start(path, { authorization: `Bearer ${service.key}` });
      stream.end(grpcFrame(message));
      stream.pause();
      return raw;
    },
    connect: () => unreadHttp("application/connect+proto"),
    "grpc-web": () => unreadHttp("application/grpc-web+proto"),
  };
  function unreadHttp(type: string) {
    const body = envelope(message);
    const { req } = startRequest(service.http + path, {
      authorization: `Bearer ${service.key}`,
      "content-type": type,
      "content-length": body.length,
    });
    req.on("error", () => {});
    req.on("response", (response: Readable) => response.pause());
    req.end(body);
    return { close: () => req.destroy() };
  }

  it.each(Object.keys(ways))(
    "pause the engine, and are reset after limits.stall: %s (REL-1, GRPC-14)",
    async (name) => {
      const ended = () => service.logs.filter(({ msg, outcome }) => msg === "request" && outcome === "stalled").length;
      const before = ended();
      const producedBefore = (await service.debugState()).models[0]?.produced_tokens ?? 0;
      const client = ways[name]?.();
      await eventually(() => ended() === before + 1, "the stream is cut");
      const { models, requests } = await service.debugState();
      expect(models[0]).toMatchObject({ busy: 0 });
      expect((models[0]?.produced_tokens ?? tokens) - producedBefore).toBeLessThan(tokens / 2);
      expect(requests.running).toBe(0);
      client?.close();
    },
  );
});
