import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { expect, it, onTestFinished } from "vitest";
import { Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import {
  InferenceService,
  StreamChatCompletionRequestSchema,
  type StreamChatCompletionResponse,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcDefinition } from "../../../src/lib/grpc-definition.js";
import { GrpcClient, metadataOf } from "../../support/grpc-client.js";
import { spawnServe } from "../../support/service-process.js";

/** Longer than the 40 s after which an unanswered keepalive ping closes a connection. */
const tokens = 60;

const config = `models:
  - id: slow
    engine: scripted
    scripted: { text: "tick ", tokens: ${tokens}, token_delay_ms: 1000 }
`;

it("a gRPC stream of a minute is completed although SIGTERM arrives at its first token (REL-10, GRPC-16)", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "uis-drain-"));
  onTestFinished(() => rm(cwd, { recursive: true, force: true }));
  await writeFile(join(cwd, "uis.yaml"), config);
  const { child, ready, exited } = spawnServe({ cwd, env: { UIS_STATE_DURABILITY: "none" } });
  onTestFinished(() => void child.kill("SIGKILL"));
  const { grpc, api_key: key } = await ready;
  const client = new GrpcClient(grpcDefinition(InferenceService), grpc);
  onTestFinished(() => client.close());
  const text = { part: { case: "text" as const, value: "Hi" } };
  const params = { model: "slow", messages: [{ role: Role.USER, content: [text] }] };
  const call = client.stream(
    "streamChatCompletion",
    create(StreamChatCompletionRequestSchema, { params }),
    metadataOf({ authorization: `Bearer ${key?.secret}` }),
  );
  let pieces = 0;
  call.on("data", ({ chunk }: StreamChatCompletionResponse) => {
    if (chunk?.choices[0]?.delta?.content) pieces += 1;
    if (pieces === 1) child.kill("SIGTERM");
  });
  const end = await new Promise<{ code: number; details: string }>((resolve) => call.once("status", resolve));
  expect(end).toMatchObject({ code: status.OK });
  expect(pieces).toBe(tokens);
  expect(await exited).toBe(0);
}, 180_000);
