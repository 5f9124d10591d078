import { setImmediate as turn } from "node:timers/promises";
import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  InferenceService,
  StreamChatCompletionRequestSchema,
} from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcPath } from "../../../../src/lib/grpc-definition.js";
import { eventually } from "../../../support/eventually.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { handCredential, textChunk } from "../../../support/hand-core.js";
import { answerOf, grpcFrame, RawGrpc, statusOf } from "../../../support/raw-grpc.js";
import { type HeaderList, RawHttp2, type RawHttp2Options } from "../../../support/raw-http2.js";
import { startListener } from "./start-listener.js";

const streamPath = grpcPath(InferenceService.method.streamChatCompletion);
const params = { model: "m" };
const message = toBinary(StreamChatCompletionRequestSchema, create(StreamChatCompletionRequestSchema, { params }));
const requestHeaders: HeaderList = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", streamPath],
  [":authority", "localhost"],
  ["content-type", "application/grpc+proto"],
  ["te", "trailers"],
  ["authorization", handCredential],
];

/** Starts a listener with a fake clock. Its streams return a first piece, and the rest after `finish` was called. */
async function startOnFakeClock() {
  const clock = new FakeClock();
  const started = await startListener({ clock });
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  started.core.chunks = async function* () {
    yield textChunk("Hel");
    await finished;
    yield textChunk("lo.");
  };
  /** Advances the clock by seconds; after each one, frames are exchanged in both directions. */
  async function pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second += 1) {
      clock.advance(1_000);
      for (let turns = 0; turns < 4; turns += 1) await turn();
    }
  }
  return { ...started, clock, finish, pass };
}

/** `startOnFakeClock`, with a running stream of Node's HTTP/2 client. */
async function startStream() {
  const started = await startOnFakeClock();
  const raw = new RawGrpc(started.address);
  onTestFinished(() => raw.close());
  const goaway = new Promise((resolve) => raw.session.once("goaway", resolve));
  const stream = raw.start(streamPath, { authorization: handCredential });
  const answer = answerOf(stream);
  const responded = new Promise((resolve) => stream.once("response", resolve));
  stream.end(grpcFrame(message));
  await responded;
  return { ...started, raw, goaway, answer };
}

/** `startOnFakeClock`, with a running stream of a client that writes raw HTTP/2 frames. */
async function startFrames(options: RawHttp2Options) {
  const started = await startOnFakeClock();
  const frames = new RawHttp2(started.port, options);
  onTestFinished(() => frames.close());
  frames.sendHeaders(1, requestHeaders);
  await started.core.opened();
  return { ...started, frames };
}

describe("the maximum age of a gRPC connection", () => {
  it("does not end a stream of 11 minutes, although its connection gets GOAWAY after 5", async () => {
    const { goaway, answer, finish, pass, listener } = await startStream();
    await pass(5.5 * 60);
    await goaway;
    await pass(5.5 * 60);
    finish();
    expect(statusOf(await answer).code).toBe(status.OK);
    await eventually(() => listener.connections() === 0, "the old connection is closed");
  });

  it("does not stop pings: the connection is pinged after GOAWAY, and closed with its last stream", async () => {
    const { frames, finish, pass, listener } = await startFrames({ answersPings: true });
    frames.sendLast(1, grpcFrame(message));
    await pass(5.5 * 60);
    expect(frames.seen).toMatchObject({ goaways: 1 });
    const before = frames.seen.pings;
    await pass(5 * 60);
    expect(frames.seen.pings - before).toBeGreaterThanOrEqual(9);
    expect(listener.connections()).toBe(1);
    finish();
    await frames.closed;
  });

  it("closes a connection without calls", async () => {
    const { answer, finish, pass, listener } = await startStream();
    finish();
    expect(statusOf(await answer).code).toBe(status.OK);
    await pass(4 * 60);
    expect(listener.connections()).toBe(1);
    await pass(2 * 60);
    await eventually(() => listener.connections() === 0, "the connection is closed");
  });
});

describe("drain of gRPC connections", () => {
  it("lets a stream complete that runs for a minute after the drain has begun (REL-10, GRPC-16)", async () => {
    const { answer, finish, pass, listener } = await startStream();
    const drained = listener.drain(120_000);
    await pass(60);
    finish();
    expect(statusOf(await answer).code).toBe(status.OK);
    await drained;
  });

  it("lets a stream complete whose client has sent GOAWAY", async () => {
    const { raw, answer, finish, pass } = await startStream();
    raw.session.close();
    await pass(60);
    finish();
    expect(statusOf(await answer).code).toBe(status.OK);
  });
});

describe("a lost gRPC connection", () => {
  it("is closed within a minute if its client answers no ping, and its call ends", async () => {
    const { core, frames, pass, listener } = await startFrames({ answersPings: false });
    await pass(60);
    await frames.closed;
    expect(listener.connections()).toBe(0);
    expect(core.whyEnded(core.last)).toBe("client_left");
  });

  it("is closed within two seconds after a metadata value of 100 KiB, which HTTP/2 cannot decode", async () => {
    const { core, frames, pass } = await startFrames({ answersPings: true });
    await pass(2);
    frames.sendHeaders(3, [...requestHeaders, ["x-large", "a".repeat(100 * 1024)]]);
    await eventually(() => frames.seen.goaways === 1, "HTTP/2 gave up");
    await pass(2);
    await frames.closed;
    expect(core.whyEnded(core.calls[0] ?? core.last)).toBe("client_left");
  });
});

describe("the maximum size of an HTTP/2 header list", () => {
  it("is announced, so that clients can fail the call and keep the connection", async () => {
    const { address } = await startListener();
    const raw = new RawGrpc(address);
    onTestFinished(() => raw.close());
    await eventually(() => raw.session.remoteSettings?.maxHeaderListSize === 65_535, "the setting arrived");
  });
});
