import { create, type DescMethodUnary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcDefinition, grpcPath } from "../../../src/lib/grpc-definition.js";
import { eventually } from "../../support/eventually.js";
import { GrpcClient, metadataOf } from "../../support/grpc-client.js";
import { type RunningService, startService } from "../../support/start-service.js";

let service: RunningService;

beforeAll(async () => {
  service = await startService();
});

afterAll(async () => {
  await service.close();
});

const { createChatCompletion, createCompletion, createEmbeddings } = InferenceService.method;
const { input: chatRequest } = createChatCompletion;

/** The labels of a chat request, as REST and the log spell them. */
const labels = {
  user: 'end-user "7"',
  safety_identifier: "hash-of-end-user-7",
  prompt_cache_key: "tenant-a",
  metadata: { ticket: "T-1", "with spaces": "äöü\n" },
};

const chatParams = { model: "test-chat", messages: [{ role: "user", content: "Hi" }] };

const chatMessage: MessageInitShape<typeof chatRequest> = {
  params: {
    model: "test-chat",
    messages: [{ role: Role.USER, content: [{ part: { case: "text", value: "Hi" } }] }],
    user: labels.user,
    safetyIdentifier: labels.safety_identifier,
    promptCacheKey: labels.prompt_cache_key,
    metadata: labels.metadata,
  },
};

describe("the request log", () => {
  it.each([
    ["chat", "chat/completions", { ...chatParams, ...labels }, labels],
    ["a chat stream", "chat/completions", { ...chatParams, ...labels, stream: true }, labels],
    ["completions", "completions", { model: "test-chat", prompt: "Hi", user: "u-7" }, { user: "u-7" }],
    ["embeddings", "embeddings", { model: "test-embed", input: "Hi", user: "u-8" }, { user: "u-8" }],
  ])("contains the labels of %s over REST", async (_, path, body, logged) => {
    expect(await lineOf(() => post(path, body))).toMatchObject({ ...logged, outcome: "completed" });
  });

  it.each([
    ["chat", createChatCompletion, chatMessage, labels],
    ["completions", createCompletion, { params: { model: "test-chat", prompt: ["Hi"], user: "u-7" } }, { user: "u-7" }],
    ["embeddings", createEmbeddings, { params: { model: "test-embed", input: ["Hi"], user: "u-8" } }, { user: "u-8" }],
  ] as const)("contains the labels of %s over gRPC, Connect and gRPC-Web", async (_, method, message, logged) => {
    expect(await lineOf(() => overGrpc(method, message))).toMatchObject({ ...logged, transport: "grpc" });
    expect(await lineOf(() => overConnect(method, message))).toMatchObject({ ...logged, transport: "connect" });
    expect(await lineOf(() => overGrpcWeb(method, message))).toMatchObject({ ...logged, transport: "grpc_web" });
  });

  it("contains the labels of a request that is rejected after its labels were validated", async () => {
    const line = await lineOf(() => post("chat/completions", { ...chatParams, model: "none", ...labels }, 404));
    expect(line).toMatchObject({ ...labels, error: "model_not_found" });
  });

  it("contains no invalid labels, and none for a request without labels", async () => {
    const tooLong = { ...chatParams, ...labels, safety_identifier: "s".repeat(65) };
    for (const line of [
      await lineOf(() => post("chat/completions", tooLong, 400)),
      await lineOf(() => post("chat/completions", chatParams)),
    ]) {
      for (const name of Object.keys(labels)) expect(line).not.toHaveProperty(name);
    }
  });

  it("shows no credential in a label (SEC-18)", async () => {
    const planted = "CANARY0123456789";
    const line = await lineOf(() =>
      post("chat/completions", {
        ...chatParams,
        user: `Bearer ${planted}`,
        safety_identifier: `sk-uis-${planted}`,
        metadata: { password: planted, Authorization: `x "${planted}"`, note: `key sk-uis-${planted}` },
      }),
    );
    expect(JSON.stringify(line)).not.toContain("CANARY");
    expect(line).toMatchObject({ user: "Bearer [redacted]", metadata: { password: "[redacted]" } });
  });
});

/** The log line of the one request that `send` sends. */
async function lineOf(send: () => Promise<void>): Promise<Record<string, unknown> | undefined> {
  const from = service.logs.length;
  await send();
  const written = () => service.logs.slice(from).find(({ msg }) => msg === "request");
  await eventually(() => written() !== undefined, "the line of the request");
  return written();
}

async function post(path: string, body: object, expected = 200): Promise<void> {
  const response = await fetch(`${service.api}/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  await response.text();
  expect(response.status).toBe(expected);
}

async function overGrpc(method: DescMethodUnary, message: MessageInitShape<DescMethodUnary["input"]>): Promise<void> {
  const client = new GrpcClient(grpcDefinition(InferenceService), service.grpc);
  const metadata = metadataOf({ authorization: `Bearer ${service.key}` });
  const outcome = await client.unary(method.localName, create(method.input, message), metadata);
  client.close();
  expect(outcome.status.code).toBe(status.OK);
}

const overConnect = (method: DescMethodUnary, message: MessageInitShape<DescMethodUnary["input"]>) =>
  postMessage(method, "application/proto", toBinary(method.input, create(method.input, message)));

function overGrpcWeb(method: DescMethodUnary, message: MessageInitShape<DescMethodUnary["input"]>): Promise<void> {
  const bytes = toBinary(method.input, create(method.input, message));
  const frame = Buffer.alloc(5 + bytes.length);
  frame.writeUInt32BE(bytes.length, 1);
  frame.set(bytes, 5);
  return postMessage(method, "application/grpc-web+proto", frame);
}

async function postMessage(method: DescMethodUnary, contentType: string, body: Uint8Array): Promise<void> {
  const response = await fetch(`${service.http}${grpcPath(method)}`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": contentType },
    body: Buffer.from(body),
  });
  await response.arrayBuffer();
  expect(response.status).toBe(200);
}
