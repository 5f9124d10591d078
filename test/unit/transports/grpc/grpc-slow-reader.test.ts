import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  InferenceService,
  StreamChatCompletionRequestSchema,
  type StreamChatCompletionResponse,
} from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { createSystemClock } from "../../../../src/lib/clock.js";
import { grpcPath } from "../../../../src/lib/grpc-definition.js";
import { eventually } from "../../../support/eventually.js";
import { FakeClock } from "../../../support/fake-clock.js";
import type { GrpcClient } from "../../../support/grpc-client.js";
import { type HandCore, handCredential, textChunk, untilAborted } from "../../../support/hand-core.js";
import { grpcFrame, RawGrpc } from "../../../support/raw-grpc.js";
import { good, startListener } from "./start-listener.js";

const request = create(StreamChatCompletionRequestSchema, { params: { model: "m" } });
const piece = "x".repeat(8 * 1024);

/** An engine that can produce 64 MiB, and the number of pieces that were requested from it. */
function endless(core: HandCore, pieces = 8 * 1024) {
  const said = { pieces: 0 };
  core.chunks = async function* () {
    for (; said.pieces < pieces; said.pieces += 1) {
      yield textChunk(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return said;
}

/** A stream whose reader takes one message and then stops. A grpc-js client that requests no message continues to read. */
function stuckStream(client: GrpcClient) {
  const stream = client.stream("streamChatCompletion", request, good());
  stream.once("data", () => stream.pause());
  return stream;
}

async function standsStill(count: () => number): Promise<void> {
  let before = -1;
  let same = 0;
  await eventually(() => {
    same = count() === before ? same + 1 : 0;
    before = count();
    return same > 50 && before > 0;
  }, "the engine is held back");
}

describe("a gRPC client that does not read", () => {
  it("pauses the engine, and receives everything when it reads again (REL-1, GRPC-6)", async () => {
    const { core, client } = await startListener();
    const pieces = 512;
    const said = endless(core, pieces);
    const stream = stuckStream(client);
    await standsStill(() => said.pieces);
    expect(said.pieces).toBeLessThan(pieces);

    let chars = piece.length;
    let messages = 1;
    stream.on("data", ({ chunk }: StreamChatCompletionResponse) => {
      messages += 1;
      chars += chunk?.choices[0]?.delta?.content?.length ?? 0;
    });
    stream.resume();
    const end = await new Promise<{ code: number }>((resolve) => stream.once("status", resolve));
    expect(end.code).toBe(status.OK);
    expect(chars).toBe(pieces * piece.length);
    expect(messages, "what waited was merged").toBeLessThan(pieces);
  });

  it("is disconnected after limits.stall, and its call ends as `stalled` (REL-1, GRPC-14)", async () => {
    const clock = new FakeClock();
    const { core, client } = await startListener({ clock, limits: { stallMs: 30_000 } });
    const said = endless(core);
    const stream = stuckStream(client);
    const ended = new Promise<{ code: number }>((resolve) => stream.once("status", resolve));
    await standsStill(() => said.pieces);
    clock.advance(29_000);
    expect(core.whyEnded(core.last)).toBe(null);
    clock.advance(1_000);
    expect(core.whyEnded(core.last)).toBe("stalled");
    await eventually(() => core.last.closed === 1, "the context is closed");
    stream.resume();
    expect((await ended).code).not.toBe(status.OK);
  });

  it("is not disconnected if it is a trusted gateway, which has a limit for its own client (REL-24)", async () => {
    const clock = new FakeClock();
    const connectionClock = createSystemClock();
    const call = {
      requestId: `req_${"0".repeat(32)}`,
      operation: "create_chat_completion",
      transport: "grpc_web",
    } as const;
    const forwarded = () => ({ ...call, address: "127.0.0.1", sessionToken: null });
    const { core, client } = await startListener({ clock, connectionClock, forwarded, limits: { stallMs: 30_000 } });
    const pieces = 512;
    const said = endless(core, pieces);
    const stream = stuckStream(client);
    await standsStill(() => said.pieces);
    clock.advance(60_000);
    expect(core.whyEnded(core.last)).toBe(null);
    stream.on("data", () => {});
    stream.resume();
    const end = await new Promise<{ code: number }>((resolve) => stream.once("status", resolve));
    expect(end.code).toBe(status.OK);
  });

  it("is disconnected if it does not read the end of the stream (GRPC-14)", async () => {
    const clock = new FakeClock();
    const connectionClock = createSystemClock();
    const { core, address } = await startListener({ clock, connectionClock, limits: { stallMs: 30_000 } });
    core.chunks = async function* () {
      yield textChunk("x".repeat(1024 * 1024));
    };
    const raw = new RawGrpc(address);
    onTestFinished(() => raw.close());
    const stream = raw.start(grpcPath(InferenceService.method.streamChatCompletion), { authorization: handCredential });
    const answered = new Promise((resolve) => stream.once("response", resolve));
    stream.end(grpcFrame(toBinary(StreamChatCompletionRequestSchema, request)));
    await answered;
    await eventually(() => clock.pending === 1, "the end waits for the reader");
    expect(core.last.closed).toBe(0);
    clock.advance(30_000);
    await eventually(() => core.last.closed === 1, "the context is closed");
    expect(core.whyEnded(core.last)).toBe("stalled");
    expect(clock.pending).toBe(0);
  });

  it("is not confused with a client whose engine produces nothing", async () => {
    const clock = new FakeClock();
    const { core, client } = await startListener({ clock, limits: { stallMs: 30_000 } });
    core.chunks = async function* (_params, ctx) {
      yield textChunk("Hel");
      await untilAborted(ctx.signal);
    };
    const stream = client.stream("streamChatCompletion", request, good());
    await new Promise((resolve) => stream.once("data", resolve));
    clock.advance(120_000);
    expect(core.whyEnded(core.last)).toBe(null);
    stream.cancel();
  });
});
