import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";
import {
  CreateChatCompletionRequestSchema,
  type CreateChatCompletionResponse,
  StreamChatCompletionRequestSchema,
  type StreamChatCompletionResponse,
} from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { type Caller, Ended } from "../../../../src/domain/call/call-context.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { eventually } from "../../../support/eventually.js";
import { errorFacts, metadataOf } from "../../../support/grpc-client.js";
import { textChunk, untilAborted } from "../../../support/hand-core.js";
import { good, startListener } from "./start-listener.js";

const chat = create(CreateChatCompletionRequestSchema, { params: { model: "m" } });
const streamed = create(StreamChatCompletionRequestSchema, { params: { model: "m" } });
const requestId = /^req_[0-9a-f]{32}$/;

describe("responses to gRPC calls", () => {
  it("return the request id of a unary call, whose credential is passed to the core (KEY-17, GRPC-22)", async () => {
    const { core, client } = await startListener();
    const {
      messages,
      headers,
      status: end,
    } = await client.unary<CreateChatCompletionResponse>(
      "createChatCompletion",
      chat,
      metadataOf({ authorization: "Bearer good", "x-client-request-id": "mine", "x-stainless-retry-count": "1" }),
    );
    expect(end.code).toBe(status.OK);
    expect(messages[0]?.completion?.choices[0]?.message?.content).toBe("Hello.");
    expect(headers?.get("x-request-id")[0]).toMatch(requestId);
    expect(core.last.operation).toBe("create_chat_completion");
    expect(core.last.caller).toMatchObject({
      authorization: "Bearer good",
      transport: "grpc",
      address: "127.0.0.1",
      deadlineAtMs: Number.POSITIVE_INFINITY,
      clientRequestId: "mine",
      retryCount: "1",
      requestId: headers?.get("x-request-id")[0],
    });
  });

  it("contain every item of a stream and the request id (GRPC-1, GRPC-22)", async () => {
    const { client } = await startListener();
    const {
      messages,
      headers,
      status: end,
    } = await client.collect<StreamChatCompletionResponse>("streamChatCompletion", streamed, good());
    expect(end.code).toBe(status.OK);
    expect(messages.map(({ chunk }) => chunk?.choices[0]?.delta?.content)).toEqual(["Hel", "lo."]);
    expect(headers?.get("x-request-id")[0]).toMatch(requestId);
  });

  it("name the deployment in headers, and in the trailers of a stream the deployment that took over", async () => {
    const { core, client } = await startListener();
    const first = { "x-uis-deployment": "m/0", "x-uis-attempts": "1" };
    const last = { "x-uis-deployment": "m/1", "x-uis-attempts": "2", "x-uis-model": "n" };
    const unary = await client.unary("createChatCompletion", chat, good());
    expect(unary.headers?.getMap()).toMatchObject(first);
    const stream = await client.collect("streamChatCompletion", streamed, good());
    expect(stream.headers?.getMap()).toMatchObject(first);
    expect(stream.status.metadata.getMap()).toMatchObject(last);
    core.chunks = async function* () {
      yield textChunk("Hel");
      throw new ServiceError("upstream_error", "The engine stopped unexpectedly.");
    };
    const failed = await client.collect("streamChatCompletion", streamed, good());
    expect(failed.status.code).toBe(status.UNAVAILABLE);
    expect(failed.status.metadata.getMap()).toMatchObject(last);
  });

  it("close the context of a successful call once, and do not count it as cancelled (GRPC-3)", async () => {
    const { core, client } = await startListener();
    await client.unary("createChatCompletion", chat, good());
    await client.collect("streamChatCompletion", streamed, good());
    await eventually(() => core.calls.every(({ closed }) => closed === 1), "both contexts are closed");
    expect(core.calls.map((call) => core.whyEnded(call))).toEqual([null, null]);
  });

  it("are produced with empty params for a request without params", async () => {
    const { core, client } = await startListener();
    let model: string | undefined;
    core.chat = (params) => {
      model = params.model;
      return "";
    };
    await client.unary("createChatCompletion", create(CreateChatCompletionRequestSchema), good());
    expect(model).toBe("");
  });
});

describe("errors of gRPC calls", () => {
  it("have a code, ErrorInfo, and the path of the field, starting at the request message (ERR-7, GRPC-9, GRPC-10, GRPC-22)", async () => {
    const { core, client } = await startListener();
    core.chat = () => {
      throw new ServiceError("invalid_value", "'messages[0].role' is wrong.", { param: "messages[0].role" });
    };
    const { status: end } = await client.unary("createChatCompletion", chat, good());
    expect(errorFacts(end)).toEqual({
      code: status.INVALID_ARGUMENT,
      detailsCode: status.INVALID_ARGUMENT,
      message: "'messages[0].role' is wrong.",
      reason: "INVALID_VALUE",
      info: { type: "invalid_request_error", param: "messages[0].role" },
      fields: ["params.messages[0].role"],
      retryDelayMs: null,
    });
    expect(end.metadata.get("x-request-id")[0]).toBe(core.last.caller.requestId);
  });

  it("have a retry delay as RetryInfo and as metadata (RETRY-1, GRPC-10)", async () => {
    const { core, client } = await startListener();
    core.beforeOpen = () => {
      throw new ServiceError("server_is_overloaded", "No slot.", { retryAfterMs: 1500 });
    };
    const { status: end } = await client.unary("createChatCompletion", chat, good());
    expect(errorFacts(end)).toMatchObject({ code: status.UNAVAILABLE, retryDelayMs: 1500 });
    expect(end.metadata.get("retry-after-ms")).toEqual(["1500"]);
    expect(end.metadata.get("retry-after")).toEqual(["2"]);
    expect(end.metadata.get("grpc-retry-pushback-ms")).toEqual(["1500"]);
  });

  it("do not show unexpected causes, before and after the first message of a stream (GRPC-8)", async () => {
    const { core, client } = await startListener();
    core.chat = () => {
      throw new Error("secret of the house");
    };
    core.chunks = async function* () {
      yield textChunk("Hel");
      throw new Error("secret of the house");
    };
    const unary = await client.unary("createChatCompletion", chat, good());
    const stream = await client.collect("streamChatCompletion", streamed, good());
    expect(stream.messages).toHaveLength(1);
    for (const { status: end } of [unary, stream]) {
      expect(errorFacts(end)).toMatchObject({ code: status.INTERNAL, reason: "INTERNAL_ERROR" });
      expect(JSON.stringify(end)).not.toContain("secret");
    }
  });

  it("follow the items of a stream that were produced before", async () => {
    const { core, client } = await startListener();
    core.chunks = async function* () {
      yield textChunk("Hel");
      throw new ServiceError("upstream_error", "The engine died.");
    };
    const { messages, status: end } = await client.collect("streamChatCompletion", streamed, good());
    expect(messages).toHaveLength(1);
    expect(errorFacts(end)).toMatchObject({ code: status.UNAVAILABLE, reason: "UPSTREAM_ERROR" });
  });

  it("are sent even if their message has half a surrogate pair", async () => {
    const { core, client } = await startListener();
    core.chat = () => {
      throw new ServiceError("invalid_value", "not \ud800 this", { param: "\udc00" });
    };
    const { status: end } = await client.unary("createChatCompletion", chat, good());
    expect(errorFacts(end)).toMatchObject({ code: status.INVALID_ARGUMENT, message: "not \ufffd this" });
  });
});

describe("the end of a gRPC call", () => {
  it("is caused by a client that cancels in the middle of a stream (GRPC-3, GRPC-7)", async () => {
    const { core, client } = await startListener();
    core.chunks = async function* (_params, ctx) {
      yield textChunk("Hel");
      await untilAborted(ctx.signal);
    };
    const stream = client.stream("streamChatCompletion", streamed, good());
    stream.once("data", () => stream.cancel());
    const call = await core.opened();
    await eventually(() => call.closed === 1, "the context is closed");
    expect(core.whyEnded(call)).toBe("client_left");
  });

  it("leaves no open context if the client cancels while the call is being authorized (GRPC-3)", async () => {
    const { core, client } = await startListener();
    let letIn = (): void => {};
    let caller: Caller | undefined;
    core.beforeOpen = (seen) => {
      caller = seen;
      return new Promise((resolve) => {
        letIn = resolve;
      });
    };
    const stream = client.stream("streamChatCompletion", streamed, good());
    await eventually(() => caller !== undefined, "the call arrives");
    stream.cancel();
    await eventually(() => caller?.abort.signal.aborted === true, "the leave is seen");
    letIn();
    const call = await core.opened();
    await eventually(() => call.closed === 1, "the context is closed");
    expect(core.whyEnded(call)).toBe("client_left");
  });

  it("has the reason `deadline` if the client's deadline has passed (GRPC-4)", async () => {
    const { core, client } = await startListener();
    // Connects first, so that the client's timer and the server's deadline start at the same time.
    await client.unary("createChatCompletion", chat, good());
    core.chat = (_params, ctx) => untilAborted(ctx.signal);
    const { status: end } = await client.unary("createChatCompletion", chat, good(), { deadline: Date.now() + 100 });
    expect(end.code).toBe(status.DEADLINE_EXCEEDED);
    expect(core.last.caller.deadlineAtMs).toBeLessThan(Date.now() + 1000);
    await eventually(() => core.last.closed === 1, "the context is closed");
    expect(core.whyEnded(core.last)).toBe("deadline");
  });

  it("has the core's error if the core ends the call", async () => {
    const { core, client } = await startListener();
    core.chunks = async function* (_params, ctx) {
      yield textChunk("Hel");
      await untilAborted(ctx.signal);
    };
    void core.opened().then((call) => call.caller.abort.abort(new Ended("key_revoked")));
    const { status: end } = await client.collect("streamChatCompletion", streamed, good());
    expect(errorFacts(end)).toMatchObject({ code: status.UNAUTHENTICATED, reason: "INVALID_API_KEY" });
  });
});
