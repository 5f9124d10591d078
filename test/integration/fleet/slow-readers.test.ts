import { setTimeout as delay } from "node:timers/promises";
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { StreamChatCompletionRequestSchema } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcPath } from "../../../src/lib/grpc-definition.js";
import { chatOf, streamChatCompletion } from "../../conformance/rpc/chat-requests.js";
import { envelope, startRequest } from "../../support/connect-http.js";
import { eventually } from "../../support/eventually.js";
import { type Fleet, startFleet } from "../../support/fleet/start-fleet.js";
import { grpcFrame, RawGrpc } from "../../support/raw-grpc.js";
import type { RunningService } from "../../support/start-service.js";

const stallMs = 1_000;
/** Shorter than that of the gateway, which alone applies to clients of the gateway. */
const coreStallMs = 100;
const model = "m";
/** 32 MiB: more than all buffers between the engine and a client. */
const text = Array.from({ length: 4_096 }, () => "x".repeat(8 * 1024 - 1)).join(" ");

let fleet: Fleet;
let gateway: RunningService;
let core: RunningService;

beforeAll(async () => {
  const models = [{ id: model, engine: "scripted", scripted: { text } }];
  fleet = await startFleet({ config: { limits: { stall: `${stallMs}ms` }, models } });
  gateway = fleet.gateway;
  core = fleet.cores[0] as RunningService;
  const { config, reload } = core.service;
  await reload.apply({ ...config, limits: { ...config.limits, stall: coreStallMs } }, []);
});
afterAll(() => fleet.close());

const path = grpcPath(streamChatCompletion);
const message = toBinary(
  StreamChatCompletionRequestSchema,
  create(StreamChatCompletionRequestSchema, chatOf(model, {}, "Go on.")),
);
const restBody = JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Go on." }] });

/** Starts a stream of gRPC whose client reads nothing yet. */
function startGrpc() {
  const raw = new RawGrpc(gateway.grpc);
  onTestFinished(() => raw.close());
  const stream = raw.start(path, { authorization: `Bearer ${gateway.key}` });
  stream.end(grpcFrame(message));
  return stream.pause();
}

/** Starts a stream over HTTP/1.1 whose client reads only the headers. */
function startHttp(url: string, type: string, body: Buffer | string): void {
  const { req } = startRequest(url, {
    authorization: `Bearer ${gateway.key}`,
    "content-type": type,
    "content-length": Buffer.byteLength(body),
  });
  onTestFinished(() => void req.destroy());
  req.on("error", () => {});
  req.on("response", (response) => response.pause());
  req.end(body);
}

const requests = ({ logs }: RunningService) => logs.filter(({ msg }) => msg === "request");
const outcomes = (service: RunningService) =>
  Object.fromEntries(requests(service).map(({ transport, outcome, error }) => [transport, `${outcome} ${error}`]));

describe("a client of a gateway", () => {
  it("that does not read is disconnected by the gateway after limits.stall, on every protocol (REL-1, REL-24, GRPC-14)", async () => {
    startHttp(`${gateway.api}/chat/completions`, "application/json", restBody);
    startHttp(gateway.http + path, "application/connect+proto", envelope(message));
    startHttp(gateway.http + path, "application/grpc-web+proto", envelope(message));
    startGrpc();
    const ways = ["openai", "connect", "grpc_web", "grpc"];
    await eventually(() => [gateway, core].every((one) => requests(one).length === ways.length), "the calls end");
    const all = (text: string) => Object.fromEntries(ways.map((way) => [way, text]));
    expect(outcomes(gateway)).toEqual(all("stalled client_closed_request"));
    expect(outcomes(core)).toEqual(all("client_left client_closed_request"));
    expect(gateway.logs.filter(({ msg }) => msg === "a core failed a call")).toEqual([]);
    expect((await core.debugState()).models[0]).toMatchObject({ busy: 0 });
  });

  it("that reads slowly is not disconnected, although the gateway reads from the core in large steps (REL-24)", async () => {
    const before = requests(gateway).length;
    const stream = startGrpc();
    let bytes = 0;
    // At most 640 KiB a second. The gateway reads in steps of 2 MiB, half of its window, so that the core waits for seconds.
    for (const untilMs = performance.now() + 1.5 * stallMs; performance.now() < untilMs; await delay(25)) {
      bytes += ((stream.read(16 * 1024) ?? stream.read()) as Buffer | null)?.length ?? 0;
    }
    expect(requests(gateway).slice(before)).toEqual([]);
    expect(stream.closed).toBe(false);
    expect(bytes).toBeGreaterThan(256 * 1024);
    stream.close();
    await eventually(() => requests(gateway).length > before, "the gateway ends the call");
    expect(requests(gateway).at(-1)).toMatchObject({ outcome: "client_left" });
  });
});
