import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  CreateChatCompletionRequestSchema,
  InferenceService,
  StreamChatCompletionRequestSchema,
} from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcDefinition, grpcPath } from "../../../../src/lib/grpc-definition.js";
import { eventually } from "../../../support/eventually.js";
import { errorFacts, GrpcClient } from "../../../support/grpc-client.js";
import { handCredential, textChunk, untilAborted } from "../../../support/hand-core.js";
import { grpcFrame, RawGrpc, statusOf } from "../../../support/raw-grpc.js";
import { good, startListener } from "./start-listener.js";

const chat = create(CreateChatCompletionRequestSchema, { params: { model: "m" } });
const streamed = create(StreamChatCompletionRequestSchema, { params: { model: "m" } });

describe("the gRPC listener", () => {
  it("reports a port in use as EADDRINUSE", async () => {
    const { port } = await startListener();
    await expect(startListener({ port })).rejects.toMatchObject({ code: "EADDRINUSE" });
  });

  it("counts its connections", async () => {
    const { client, listener } = await startListener();
    expect(listener.connections()).toBe(0);
    await client.unary("createChatCompletion", chat, good());
    expect(listener.connections()).toBe(1);
    client.close();
    await eventually(() => listener.connections() === 0, "the connection is gone");
  });

  it("answers a method that does not exist with UNIMPLEMENTED, without a credential check (SEC-3)", async () => {
    const { address, core } = await startListener();
    const raw = new RawGrpc(address);
    onTestFinished(() => raw.close());
    const answer = await raw.call("/unified.inference.v1.InferenceService/Nothing", Buffer.alloc(5));
    expect(errorFacts(statusOf(answer))).toMatchObject({
      code: status.UNIMPLEMENTED,
      detailsCode: status.UNIMPLEMENTED,
      reason: "UNKNOWN_URL",
      message: expect.stringContaining("has no RPC"),
    });
    expect(statusOf(answer).metadata.get("x-request-id")[0]).toMatch(/^req_/);
    expect(core.calls).toHaveLength(0);
  });
});

describe("drain of the gRPC listener", () => {
  it("lets running calls finish, refuses new connections, and resolves when the last one is closed (REL-10, GRPC-16)", async () => {
    const { core, client, listener, address } = await startListener();
    let finish = (): void => {};
    const running = new Promise<void>((resolve) => {
      core.chunks = async function* () {
        yield textChunk("Hel");
        resolve();
        await new Promise<void>((finished) => {
          finish = finished;
        });
        yield textChunk("lo.");
      };
    });
    const outcome = client.collect("streamChatCompletion", streamed, good());
    await running;
    const drained = listener.drain(10_000);

    const late = new GrpcClient(grpcDefinition(InferenceService), address);
    onTestFinished(() => late.close());
    expect((await late.unary("createChatCompletion", chat, good())).status.code).toBe(status.UNAVAILABLE);

    finish();
    expect((await outcome).messages).toHaveLength(2);
    expect((await outcome).status.code).toBe(status.OK);
    await drained;
    expect(listener.connections()).toBe(0);
  });

  it("ends calls that do not finish in time with UNAVAILABLE and ErrorInfo (REL-10, GRPC-11, GRPC-16)", async () => {
    const { core, client, listener } = await startListener();
    core.chunks = async function* (_params, ctx) {
      yield textChunk("Hel");
      await untilAborted(ctx.signal);
    };
    const outcome = client.collect("streamChatCompletion", streamed, good());
    await core.opened();
    await listener.drain(20);
    expect(errorFacts((await outcome).status)).toMatchObject({
      code: status.UNAVAILABLE,
      reason: "SERVER_SHUTTING_DOWN",
    });
    expect(core.whyEnded(core.last)).toBe("shutting_down");
  });

  it("is shortened by a second drain with a shorter grace time", async () => {
    const { core, client, listener } = await startListener();
    core.chat = (_params, ctx) => untilAborted(ctx.signal);
    const outcome = client.unary("createChatCompletion", chat, good());
    await core.opened();
    const patient = listener.drain(120_000);
    await listener.drain(0);
    await patient;
    expect((await outcome).status.code).toBe(status.UNAVAILABLE);
  });

  it("disconnects a client that does not read its status (GRPC-16)", async () => {
    const { core, listener, address } = await startListener();
    core.chunks = async function* (_params, ctx) {
      yield textChunk("x".repeat(1024 * 1024));
      await untilAborted(ctx.signal);
    };
    const raw = new RawGrpc(address);
    onTestFinished(() => raw.close());
    const stream = raw.start(grpcPath(InferenceService.method.streamChatCompletion), { authorization: handCredential });
    const answered = new Promise((resolve) => stream.once("response", resolve));
    stream.end(grpcFrame(toBinary(StreamChatCompletionRequestSchema, streamed)));
    await answered;
    await listener.drain(0);
    expect(listener.connections()).toBe(0);
    expect(core.whyEnded(core.last)).toBe("shutting_down");
  });
});
