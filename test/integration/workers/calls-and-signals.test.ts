import { writeFileSync } from "node:fs";
import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import {
  CreateChatCompletionRequestSchema,
  InferenceService,
  StreamChatCompletionRequestSchema,
  type StreamChatCompletionResponse,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcDefinition } from "../../../src/lib/grpc-definition.js";
import { eventually } from "../../support/eventually.js";
import { TwoWorkers } from "../../support/fleet/two-workers.js";
import { errorFacts, GrpcClient, metadataOf } from "../../support/grpc-client.js";

const limit = 20;
const tokens = 12;
const four = { id: "four", engine: "scripted", scripted: { text: "tick", tokens: 4 } };
const paced = { id: "paced", engine: "scripted", scripted: { text: "tick ", tokens, token_delay_ms: 100 } };
const rateLimits = { default_account: { requests_per_minute: limit } };
const both = new Set([1, 2]);
let two: TwoWorkers;

beforeAll(async () => {
  two = await TwoWorkers.start({ models: [four, paced], rate_limits: rateLimits });
});
afterAll(() => two.remove());

const paramsFor = (model: string) => {
  const text = { part: { case: "text" as const, value: "Hi" } };
  return { model, messages: [{ role: Role.USER, content: [text] }] };
};

/** Runs a call for each of `count` clients. Each client has its own connection. */
async function overConnections<T>(count: number, call: (client: GrpcClient) => Promise<T>): Promise<readonly T[]> {
  const options = { "grpc.use_local_subchannel_pool": 1 };
  const clients = Array.from(
    { length: count },
    () => new GrpcClient(grpcDefinition(InferenceService), two.service.line.grpc, undefined, options),
  );
  try {
    return await Promise.all(clients.map(call));
  } finally {
    for (const client of clients) client.close();
  }
}

it("both workers answer unary gRPC calls and together enforce one exact limit (REL-27, REL-16)", async () => {
  const metadata = metadataOf({ authorization: `Bearer ${await two.newKey("unary")}` });
  const from = two.service.logs().length;
  const request = create(CreateChatCompletionRequestSchema, { params: paramsFor("four") });
  const outcomes = await overConnections(2 * limit, (client) =>
    client.unary("createChatCompletion", request, metadata),
  );
  const codes = outcomes.map((outcome) => outcome.status.code);
  expect(codes.filter((code) => code === status.OK)).toHaveLength(limit);
  const refused = outcomes.filter((outcome) => outcome.status.code !== status.OK);
  expect(new Set(refused.map((outcome) => outcome.status.code))).toEqual(new Set([status.RESOURCE_EXHAUSTED]));
  expect(
    errorFacts(refused[0]?.status ?? { code: 0, details: "", metadata: metadataOf({}) }).retryDelayMs,
  ).toBeGreaterThan(0);
  await eventually(() => two.answering(from).size === 2, "both workers log calls");
});

it("both workers answer gRPC streams, each complete and in order (REL-27)", async () => {
  const metadata = metadataOf({ authorization: `Bearer ${await two.newKey("streams")}` });
  const from = two.service.logs().length;
  const request = create(StreamChatCompletionRequestSchema, { params: paramsFor("paced") });
  const outcomes = await overConnections(8, (client) =>
    client.collect<StreamChatCompletionResponse>("streamChatCompletion", request, metadata),
  );
  for (const { messages, status: end } of outcomes) {
    expect(end.code).toBe(status.OK);
    const text = messages.map(({ chunk }) => chunk?.choices[0]?.delta?.content ?? "").join("");
    expect(text.split(" ")).toEqual(Array.from({ length: tokens }, () => "tick"));
  }
  await eventually(() => two.answering(from).size === 2, "both workers log streams");
  expect(two.answering(from)).toEqual(both);
});

it("SIGHUP changes the models of both workers and of a later one, and an invalid file changes nothing (REL-27)", async () => {
  const key = await two.newKey("reload");
  const statusesOf = async (model: string) => {
    const answers = await Promise.all(Array.from({ length: 6 }, () => two.chat(key, model)));
    return new Set(answers.map((answer) => answer.status));
  };
  const reload = async (config: object, message: string) => {
    const from = two.service.logs().length;
    writeFileSync(two.configFile, JSON.stringify(config));
    two.service.child.kill("SIGHUP");
    await eventually(
      () =>
        two.service
          .logs()
          .slice(from)
          .some(({ msg }) => msg === message),
      message,
    );
  };
  const same = { server: { workers: 2 }, state: { redis_url: two.redis.url }, rate_limits: rateLimits };
  expect(await statusesOf("new")).toEqual(new Set([404]));
  await reload({ ...same, models: [paced, { ...four, id: "new" }] }, "the configuration was reloaded by all workers");
  const [reloaded] = two.service.logs().filter(({ msg }) => msg === "the configuration was reloaded by all workers");
  expect(reloaded).toMatchObject({ workers: 2 });
  expect(await statusesOf("new")).toEqual(new Set([200]));
  await reload({ ...same, models: [{ id: "third" }] }, "the configuration was not reloaded");

  const [first] = await two.workers();
  process.kill(first?.pid ?? 0, "SIGKILL");
  await eventually(async () => {
    const now = await two.workers();
    return now.length === 2 && now.every(({ pid, state }) => pid !== first?.pid && state === "ready");
  }, "the worker is replaced");
  const from = two.service.logs().length;
  expect(await statusesOf("new")).toEqual(new Set([200]));
  await eventually(() => two.answering(from).size === 2, "both workers answer");
});

it("streams on both workers are completed after SIGTERM, and the exit code is 0 (REL-10, REL-27)", async () => {
  const key = await two.newKey("drain");
  const from = two.service.logs().length;
  const streams = Array.from({ length: 4 }, () => two.chat(key, "paced", true));
  await eventually(async () => (await two.service.debugState()).requests.running === 4, "four running streams");
  two.service.child.kill("SIGTERM");
  for (const { status: code, text, fault } of await Promise.all(streams)) {
    expect({ code, fault, end: text.trimEnd().split("\n").at(-1) }).toEqual({
      code: 200,
      fault: null,
      end: "data: [DONE]",
    });
  }
  expect(await two.service.exited).toBe(0);
  expect(two.answering(from)).toEqual(both);
});
