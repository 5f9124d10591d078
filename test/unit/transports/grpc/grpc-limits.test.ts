import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  CreateChatCompletionRequestSchema,
  InferenceService,
} from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { grpcPath } from "../../../../src/lib/grpc-definition.js";
import { eventually } from "../../../support/eventually.js";
import { errorFacts, metadataOf } from "../../../support/grpc-client.js";
import { handCredential, untilAborted } from "../../../support/hand-core.js";
import { answerOf, grpcFrame, RawGrpc, statusOf } from "../../../support/raw-grpc.js";
import { good, startListener } from "./start-listener.js";

const path = grpcPath(InferenceService.method.createChatCompletion);
const credential = { authorization: handCredential };
const bodyBytesMax = 64 * 1024;

function requestOf(bytes: number): Uint8Array {
  return toBinary(
    CreateChatCompletionRequestSchema,
    create(CreateChatCompletionRequestSchema, { params: { model: "m".repeat(bytes) } }),
  );
}

async function startRaw(...args: Parameters<typeof startListener>) {
  const started = await startListener(...args);
  const raw = new RawGrpc(started.address);
  onTestFinished(() => raw.close());
  return { ...started, raw };
}

describe("a gRPC call whose message has not arrived", () => {
  it("is rejected by its metadata alone (SEC-5, GRPC-5, GRPC-21, GRPC-22)", async () => {
    const { core, raw } = await startRaw();
    core.beforeOpen = () => {
      throw new ServiceError("invalid_api_key", "No such key.");
    };
    const answer = await answerOf(raw.start(path));
    expect(errorFacts(statusOf(answer))).toMatchObject({ code: status.UNAUTHENTICATED, reason: "INVALID_API_KEY" });
    expect(statusOf(answer).metadata.get("x-request-id")[0]).toMatch(/^req_/);
  });

  it("is rejected without reading its message: its stream is closed with NO_ERROR after the status (SEC-5, GRPC-5)", async () => {
    const { core, raw } = await startRaw();
    core.beforeOpen = () => {
      throw new ServiceError("invalid_api_key", "No such key.");
    };
    const stream = raw.start(path);
    const answer = answerOf(stream);
    const chunk = Buffer.alloc(1024 * 1024);
    let sent = 0;
    const send = (): void => {
      if (stream.writable) stream.write(chunk, () => send());
      sent += 1;
    };
    send();
    const { rstCode, ...rest } = await answer;
    expect(errorFacts(statusOf({ rstCode, ...rest })).code).toBe(status.UNAUTHENTICATED);
    expect(rstCode).toBe(0);
    expect(sent).toBeLessThan(20);
  });

  it("is rejected with RESOURCE_EXHAUSTED and ErrorInfo for metadata above 16 KiB, before its credential is checked", async () => {
    const { core, client } = await startListener();
    const { status: end } = await client.unary(
      "createChatCompletion",
      create(CreateChatCompletionRequestSchema),
      metadataOf({ ...credential, "x-large": "a".repeat(40 * 1024) }),
    );
    expect(errorFacts(end)).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: "REQUEST_HEADERS_TOO_LARGE" });
    expect(core.calls).toHaveLength(0);
  });

  it("ends with a status if its metadata is too large for HTTP/2, and the next call succeeds", async () => {
    const { client } = await startListener();
    const request = create(CreateChatCompletionRequestSchema);
    const large = metadataOf({ ...credential, "x-large": "a".repeat(200 * 1024) });
    const { status: end } = await client.unary("createChatCompletion", request, large);
    expect(end.code).not.toBe(status.OK);
    expect((await client.unary("createChatCompletion", request, good())).status.code).toBe(status.OK);
  });
});

describe("the message of a gRPC call", () => {
  it("may have the maximum size; one byte more is rejected with RESOURCE_EXHAUSTED and ErrorInfo (SEC-5, GRPC-12)", async () => {
    const { client } = await startListener({ limits: { bodyBytesMax } });
    const overhead = requestOf(bodyBytesMax).length - bodyBytesMax;
    const call = (bytes: number) =>
      client.unary(
        "createChatCompletion",
        create(CreateChatCompletionRequestSchema, { params: { model: "m".repeat(bytes - overhead) } }),
        good(),
      );
    expect((await call(bodyBytesMax)).status.code).toBe(status.OK);
    const { status: end } = await call(bodyBytesMax + 1);
    expect(errorFacts(end)).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: "REQUEST_TOO_LARGE" });
    expect(end.metadata.get("x-request-id")[0]).toMatch(/^req_/);
  });

  it("is also limited in size after decompression (SEC-5, GRPC-12)", async () => {
    const { core, raw } = await startRaw({ limits: { bodyBytesMax } });
    const bomb = grpcFrame(gzipSync(requestOf(bodyBytesMax * 100)), true);
    expect(bomb.length).toBeLessThan(bodyBytesMax);
    const answer = await raw.call(path, bomb, { ...credential, "grpc-encoding": "gzip" });
    expect(errorFacts(statusOf(answer))).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      reason: "REQUEST_TOO_LARGE",
    });
    await eventually(() => core.last.closed === 1, "the context is closed");
  });

  it("may be compressed", async () => {
    const { raw } = await startRaw();
    const answer = await raw.call(path, grpcFrame(gzipSync(requestOf(100)), true), {
      ...credential,
      "grpc-encoding": "gzip",
    });
    expect(statusOf(answer).code).toBe(status.OK);
  });

  it("is rejected with INTERNAL if it cannot be decoded, and the context is closed (GRPC-9, GRPC-13)", async () => {
    const { core, raw } = await startRaw();
    const answer = await raw.call(path, grpcFrame(Buffer.from("ffffffffff", "hex")), credential);
    expect(errorFacts(statusOf(answer))).toMatchObject({
      code: status.INTERNAL,
      detailsCode: status.INTERNAL,
      reason: "INVALID_VALUE",
    });
    expect(statusOf(answer).metadata.get("x-request-id")[0]).toMatch(/^req_/);
    await eventually(() => core.last.closed === 1, "the context is closed");
    expect(core.whyEnded(core.last)).toBe("failed");
    expect(core.last.refused).toBe("invalid_value");
  });

  it("must be present: otherwise the call is rejected and its context is closed", async () => {
    const { core, raw } = await startRaw();
    const answer = await raw.call(path, Buffer.alloc(0), credential);
    expect(errorFacts(statusOf(answer))).toMatchObject({
      code: status.UNIMPLEMENTED,
      detailsCode: status.UNIMPLEMENTED,
      reason: "INVALID_VALUE",
    });
    await eventually(() => core.last.closed === 1, "the context is closed");
    expect(core.whyEnded(core.last)).toBe("failed");
  });

  it("must be the only one: two are rejected with the same code in the status and in its details (GRPC-13)", async () => {
    const { raw } = await startRaw();
    const twice = Buffer.concat([grpcFrame(requestOf(1)), grpcFrame(requestOf(1))]);
    expect(errorFacts(statusOf(await raw.call(path, twice, credential)))).toMatchObject({
      code: status.UNIMPLEMENTED,
      detailsCode: status.UNIMPLEMENTED,
      reason: "INVALID_VALUE",
    });
  });

  it("must arrive within limits.request_timeout", async () => {
    const { core, raw } = await startRaw({ limits: { requestTimeoutMs: 50 } });
    const answer = await answerOf(raw.start(path, credential));
    expect(errorFacts(statusOf(answer))).toMatchObject({ code: status.DEADLINE_EXCEEDED, reason: "REQUEST_TIMEOUT" });
    await eventually(() => core.last.closed === 1, "the context is closed");
    expect(core.last.refused).toBe("request_timeout");
  });
});

describe("a gRPC call whose message is still arriving", () => {
  it("ends with ErrorInfo at the client's deadline (ERR-25, GRPC-4)", async () => {
    const { core, raw } = await startRaw();
    const answer = await answerOf(raw.start(path, { ...credential, "grpc-timeout": "50m" }));
    expect(errorFacts(statusOf(answer))).toMatchObject({ code: status.DEADLINE_EXCEEDED, reason: "UPSTREAM_TIMEOUT" });
    await eventually(() => core.last.closed === 1, "the context is closed");
    expect(core.whyEnded(core.last)).toBe("deadline");
  });

  it("is ended immediately when the service stops (GRPC-11)", async () => {
    const { core, listener, raw } = await startRaw();
    const answer = answerOf(raw.start(path, credential));
    await core.opened();
    const drained = listener.drain(0);
    expect(errorFacts(statusOf(await answer))).toMatchObject({
      code: status.UNAVAILABLE,
      reason: "SERVER_SHUTTING_DOWN",
    });
    await drained;
  });

  it("leaves no open context and no charged bytes when its client disconnects (GRPC-3)", async () => {
    const { core, raw } = await startRaw();
    raw.start(path, credential);
    const call = await core.opened();
    raw.close();
    await eventually(() => call.closed === 1, "the context is closed");
    expect(core.whyEnded(call)).toBe("client_left");
  });
});

describe("a gRPC call whose operation runs", () => {
  it("ends with ErrorInfo at the client's deadline (ERR-25, GRPC-4)", async () => {
    const { core, raw } = await startRaw();
    core.chat = (_params, ctx) => untilAborted(ctx.signal);
    const answer = await raw.call(path, grpcFrame(requestOf(1)), { ...credential, "grpc-timeout": "50m" });
    expect(errorFacts(statusOf(answer))).toMatchObject({ code: status.DEADLINE_EXCEEDED, reason: "UPSTREAM_TIMEOUT" });
  });

  it.each(["99999999H", "2147484S", "3000000S"])("is not ended by a timeout of %s (GRPC-23)", async (timeout) => {
    const { core, raw } = await startRaw();
    const answer = await raw.call(path, grpcFrame(requestOf(1)), { ...credential, "grpc-timeout": timeout });
    expect(statusOf(answer).code).toBe(status.OK);
    const dayMs = 24 * 60 * 60 * 1000;
    expect(core.last.caller.deadlineAtMs).toBeGreaterThan(Date.now() + 24 * dayMs);
  });
});

describe("messages that are announced and never finished", () => {
  /** Sends the start of a message of `announced` bytes, without its end. */
  function startMessage(raw: RawGrpc, announced: number, sent: number) {
    const stream = raw.start(path, credential);
    const answer = answerOf(stream);
    stream.write(grpcFrame(Buffer.alloc(announced)).subarray(0, 5 + sent));
    return { stream, answer };
  }

  it("use at most their connection's share of the byte budget, and release it when their stream ends (SEC-9)", async () => {
    const { core, bodies, raw, address } = await startRaw({
      limits: { bodyBytesMax: 20_000, bodiesBytesMax: 100_000 },
    });
    const first = startMessage(raw, 20_000, 15_000);
    await eventually(() => bodies.used >= 15_000);
    const second = startMessage(raw, 20_000, 15_000);
    expect(errorFacts(statusOf(await second.answer))).toMatchObject({ reason: "SERVER_IS_OVERLOADED" });
    expect(errorFacts(statusOf(await second.answer)).message).toContain("on this connection");
    const other = new RawGrpc(address);
    onTestFinished(() => other.close());
    startMessage(other, 20_000, 15_000);
    await eventually(() => bodies.used >= 30_000);
    first.stream.close();
    other.close();
    await eventually(() => bodies.used === 0 && core.calls.every(({ closed }) => closed === 1));
  });

  it("use at most their caller's share of the byte budget over all connections (SEC-9)", async () => {
    const { bodies, address } = await startListener({ limits: { bodyBytesMax: 20_000, bodiesBytesMax: 100_000 } });
    const answers: ReturnType<typeof startMessage>[] = [];
    for (let i = 1; i <= 4; i += 1) {
      const raw = new RawGrpc(address);
      onTestFinished(() => raw.close());
      answers.push(startMessage(raw, 20_000, 15_000));
      if (i <= 3) await eventually(() => bodies.used >= i * 15_000);
    }
    const refused = statusOf(await (answers[3]?.answer as Promise<Awaited<ReturnType<typeof answerOf>>>));
    expect(errorFacts(refused)).toMatchObject({ reason: "SERVER_IS_OVERLOADED" });
    expect(errorFacts(refused).message).toContain("from this caller");
  });

  it("are rejected when they arrive slower than the minimum rate, also after a fast start (SEC-6)", async () => {
    const { bodies, raw } = await startRaw({ limits: { bodyRateGraceMs: 100 } });
    for (const sent of [1, 60_000]) {
      const { answer } = startMessage(raw, 100_000, sent);
      expect(errorFacts(statusOf(await answer))).toMatchObject({ reason: "REQUEST_TIMEOUT" });
    }
    await eventually(() => bodies.used === 0);
  });

  it("use the byte budget only until they are complete", async () => {
    const { core, bodies, client } = await startListener();
    core.chat = (_, ctx) => untilAborted(ctx.signal);
    const request = create(CreateChatCompletionRequestSchema, { params: { model: "m".repeat(10_000) } });
    const running = client.unary("createChatCompletion", request, metadataOf(credential));
    await core.opened();
    await eventually(() => bodies.used === 0);
    core.last.caller.abort.abort(new Error("the test is over"));
    await running;
  });
});
