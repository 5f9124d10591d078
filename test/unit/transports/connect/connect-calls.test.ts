import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../../gen/google/rpc/error_details_pb.js";
import type { StreamChatCompletionResponse } from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { type Caller, Ended } from "../../../../src/domain/call/call-context.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { eventually } from "../../../support/eventually.js";
import { textChunk, untilAborted } from "../../../support/hand-core.js";
import { protocols, startServer } from "./start-server.js";

const params = { model: "m" };
const requestId = /^req_[0-9a-f]{32}$/;

/** The error with which a call rejects. */
async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  try {
    await call;
  } catch (error) {
    return ConnectError.from(error);
  }
  throw new Error("the call did not fail");
}

async function readAll(stream: AsyncIterable<StreamChatCompletionResponse>): Promise<string[]> {
  const texts: string[] = [];
  for await (const { chunk } of stream) texts.push(chunk?.choices[0]?.delta?.content ?? "");
  return texts;
}

describe.each(protocols)("calls with %s", (protocol) => {
  it("a unary call passes its credential to the core and returns the request id (KEY-17, GRPC-22)", async () => {
    const { core, client } = await startServer();
    let id: string | null = null;
    const { completion } = await client(protocol).createChatCompletion(
      { params },
      {
        headers: { "x-client-request-id": "mine", "x-stainless-retry-count": "1" },
        onHeader(headers) {
          id = headers.get("x-request-id");
        },
      },
    );
    expect(completion?.choices[0]?.message?.content).toBe("Hello.");
    expect(id).toMatch(requestId);
    expect(core.last.operation).toBe("create_chat_completion");
    expect(core.last.caller).toMatchObject({
      authorization: "Bearer good",
      transport: protocol === "grpc-web" ? "grpc_web" : "connect",
      address: "127.0.0.1",
      deadlineAtMs: Number.POSITIVE_INFINITY,
      clientRequestId: "mine",
      retryCount: "1",
      requestId: id,
    });
  });

  it("a stream sends every item and the request id (GRPC-22)", async () => {
    const { client } = await startServer();
    let id: string | null = null;
    const stream = client(protocol).streamChatCompletion(
      { params },
      {
        onHeader(headers) {
          id = headers.get("x-request-id");
        },
      },
    );
    expect(await readAll(stream)).toEqual(["Hel", "lo."]);
    expect(id).toMatch(requestId);
  });

  it("answers name the deployment in headers, and in the trailers of a stream the deployment that took over", async () => {
    const { core, client } = await startServer();
    const heads: (string | null)[] = [];
    const trailers: (string | null)[][] = [];
    const read = {
      onHeader: (headers: Headers) => heads.push(headers.get("x-uis-deployment")),
      onTrailer: (trailer: Headers) => trailers.push([trailer.get("x-uis-deployment"), trailer.get("x-uis-model")]),
    };
    await readAll(client(protocol).streamChatCompletion({ params }, read));
    expect([heads, trailers]).toEqual([["m/0"], [["m/1", "n"]]]);
    await client(protocol).createChatCompletion({ params }, { onHeader: read.onHeader });
    expect(heads).toEqual(["m/0", "m/0"]);
    core.chunks = async function* () {
      yield textChunk("Hel");
      throw new ServiceError("upstream_error", "The engine stopped unexpectedly.");
    };
    const failed = await failureOf(readAll(client(protocol).streamChatCompletion({ params })));
    // The library merges trailers and headers of a failed stream.
    expect(failed.metadata.get("x-uis-deployment")?.split(", ")).toContain("m/1");
  });

  it("a successful call closes its context once and does not count as cancelled (GRPC-3)", async () => {
    const { core, client, watch, bodies } = await startServer();
    await client(protocol).createChatCompletion({ params });
    await readAll(client(protocol).streamChatCompletion({ params }));
    await eventually(() => core.calls.every(({ closed }) => closed === 1), "both contexts are closed");
    expect(core.calls.map((call) => core.whyEnded(call))).toEqual([null, null]);
    expect(watch.size).toBe(0);
    expect(bodies.used).toBe(0);
  });

  it("errors have a code, ErrorInfo, and the path of the field, starting at the request message (ERR-7, GRPC-9, GRPC-10, GRPC-22)", async () => {
    const { core, client } = await startServer();
    core.chat = () => {
      throw new ServiceError("invalid_value", "'messages[0].role' is wrong.", { param: "messages[0].role" });
    };
    const error = await failureOf(client(protocol).createChatCompletion({ params }));
    expect(error.code).toBe(Code.InvalidArgument);
    expect(error.rawMessage).toBe("'messages[0].role' is wrong.");
    expect(error.findDetails(ErrorInfoSchema)).toMatchObject([
      {
        domain: "unified-inference",
        reason: "INVALID_VALUE",
        metadata: { type: "invalid_request_error", param: "messages[0].role" },
      },
    ]);
    expect(error.findDetails(BadRequestSchema)[0]?.fieldViolations[0]?.field).toBe("params.messages[0].role");
    expect(error.metadata.get("x-request-id")).toBe(core.last.caller.requestId);
  });

  it("a retry delay is sent as RetryInfo and as metadata, also for calls that fail before they begin (RETRY-1, GRPC-10)", async () => {
    const { core, client } = await startServer();
    const overloaded = new ServiceError("server_is_overloaded", "No slot.", { retryAfterMs: 1500 });
    core.chat = () => {
      throw overloaded;
    };
    const running = await failureOf(client(protocol).createChatCompletion({ params }));
    core.beforeOpen = () => {
      throw overloaded;
    };
    const refused = await failureOf(client(protocol).createChatCompletion({ params }));
    for (const error of [running, refused]) {
      expect(error.code).toBe(Code.Unavailable);
      expect(error.findDetails(RetryInfoSchema)[0]?.retryDelay).toMatchObject({ seconds: 1n, nanos: 500_000_000 });
      expect(error.metadata.get("retry-after-ms")).toBe("1500");
      expect(error.metadata.get("retry-after")).toBe("2");
    }
  });

  it("the error of a rejected stream has the form of the protocol (GRPC-21)", async () => {
    const { core, client } = await startServer();
    core.beforeOpen = () => {
      throw new ServiceError("invalid_api_key", "No such key.");
    };
    const error = await failureOf(readAll(client(protocol).streamChatCompletion({ params })));
    expect(error.code).toBe(Code.Unauthenticated);
    expect(error.findDetails(ErrorInfoSchema)[0]?.reason).toBe("INVALID_API_KEY");
  });

  it("unexpected errors are masked, before and after the first message (GRPC-8)", async () => {
    const { core, client } = await startServer();
    core.chat = () => {
      throw new Error("secret of the house");
    };
    core.chunks = async function* () {
      yield textChunk("Hel");
      throw new Error("secret of the house");
    };
    const unary = await failureOf(client(protocol).createChatCompletion({ params }));
    const stream = await failureOf(readAll(client(protocol).streamChatCompletion({ params })));
    for (const error of [unary, stream]) {
      expect(error.code).toBe(Code.Internal);
      expect(error.findDetails(ErrorInfoSchema)[0]?.reason).toBe("INTERNAL_ERROR");
      expect(error.message).not.toContain("secret");
    }
  });

  it("an answer is sent even if its error message has half a surrogate pair", async () => {
    const { core, client } = await startServer();
    core.chat = () => {
      throw new ServiceError("invalid_value", "not \ud800 this", { param: "\udc00" });
    };
    const error = await failureOf(client(protocol).createChatCompletion({ params }));
    expect(error.code).toBe(Code.InvalidArgument);
    expect(error.rawMessage).toBe("not \ufffd this");
  });

  it("a client that cancels in the middle of a stream ends its call (GRPC-3, GRPC-7)", async () => {
    const { core, client } = await startServer();
    core.chunks = async function* (_params, ctx) {
      yield textChunk("Hel");
      await untilAborted(ctx.signal);
    };
    const abort = new AbortController();
    const stream = client(protocol).streamChatCompletion({ params }, { signal: abort.signal });
    const failure = failureOf(
      (async () => {
        for await (const _ of stream) abort.abort();
      })(),
    );
    const call = await core.opened();
    await eventually(() => call.closed === 1, "the context is closed");
    expect(core.whyEnded(call)).toBe("client_left");
    expect((await failure).code).toBe(Code.Canceled);
  });

  it("a client that cancels before its answer ends its call (GRPC-3, GRPC-7)", async () => {
    const { core, client } = await startServer();
    core.chat = (_params, ctx) => untilAborted(ctx.signal);
    const abort = new AbortController();
    const failure = failureOf(client(protocol).createChatCompletion({ params }, { signal: abort.signal }));
    const call = await core.opened();
    abort.abort();
    await eventually(() => call.closed === 1, "the context is closed");
    expect(core.whyEnded(call)).toBe("client_left");
    await failure;
  });

  it("a client that disconnects while its call is being authorized leaves no open context", async () => {
    const { core, client } = await startServer();
    let letIn = (): void => {};
    let caller: Caller | undefined;
    core.beforeOpen = (seen) => {
      caller = seen;
      return new Promise((resolve) => {
        letIn = resolve;
      });
    };
    const abort = new AbortController();
    const failure = failureOf(client(protocol).createChatCompletion({ params }, { signal: abort.signal }));
    await eventually(() => caller !== undefined, "the call arrives");
    abort.abort();
    await eventually(() => caller?.abort.signal.aborted === true, "the leave is seen");
    letIn();
    const call = await core.opened();
    await eventually(() => call.closed === 1, "the context is closed");
    await failure;
  });

  it("a client's deadline ends its call as `deadline` (GRPC-4)", async () => {
    const { core, client } = await startServer();
    core.chat = (_params, ctx) => untilAborted(ctx.signal);
    const error = await failureOf(client(protocol).createChatCompletion({ params }, { timeoutMs: 100 }));
    expect(error.code).toBe(Code.DeadlineExceeded);
    // Sends only the header: a client with its own timer may disconnect before a busy server has reached the deadline.
    const headers = protocol === "grpc-web" ? { "grpc-timeout": "100m" } : { "connect-timeout-ms": "100" };
    const leave = new AbortController();
    const left = failureOf(client(protocol).createChatCompletion({ params }, { headers, signal: leave.signal }));
    const { caller } = await core.opened(2);
    await eventually(() => Date.now() >= caller.deadlineAtMs, "the deadline");
    leave.abort();
    await left;
    await eventually(() => core.last.closed === 1, "the context is closed");
    expect(core.whyEnded(core.last)).toBe("deadline");
  });

  it("a call that the core ends fails with the core's error", async () => {
    const { core, client } = await startServer();
    core.chunks = async function* (_params, ctx) {
      yield textChunk("Hel");
      await untilAborted(ctx.signal);
    };
    const failure = failureOf(readAll(client(protocol).streamChatCompletion({ params })));
    const call = await core.opened();
    call.caller.abort.abort(new Ended("key_revoked"));
    expect((await failure).findDetails(ErrorInfoSchema)[0]?.reason).toBe("INVALID_API_KEY");
  });
});
