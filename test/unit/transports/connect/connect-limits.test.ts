import type { IncomingMessage } from "node:http";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { describe, expect, it, onTestFinished } from "vitest";
import { ErrorInfoSchema } from "../../../../gen/google/rpc/error_details_pb.js";
import {
  CreateChatCompletionRequestSchema,
  InferenceService,
} from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { Ended } from "../../../../src/domain/call/call-context.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { grpcPath } from "../../../../src/lib/grpc-definition.js";
import {
  type ConnectErrorFacts,
  connectErrorOf,
  envelope,
  type HttpAnswer,
  request,
  startRequest,
} from "../../../support/connect-http.js";
import { eventually } from "../../../support/eventually.js";
import { handCredential, silentUntilAborted, textChunk, untilAborted } from "../../../support/hand-core.js";
import { startServer } from "./start-server.js";

const unaryPath = grpcPath(InferenceService.method.createChatCompletion);
const streamPath = grpcPath(InferenceService.method.streamChatCompletion);
const bodyBytesMax = 64 * 1024;

/** A request of exactly the given number of encoded bytes. */
function messageOf(bytes: number, encode: (text: string) => Uint8Array): Uint8Array {
  const overhead = encode("m".repeat(bytes)).length - bytes;
  return encode("m".repeat(bytes - overhead));
}
const asJson = (model: string) =>
  Buffer.from(
    toJsonString(CreateChatCompletionRequestSchema, create(CreateChatCompletionRequestSchema, { params: { model } })),
  );
const asBinary = (model: string) =>
  toBinary(CreateChatCompletionRequestSchema, create(CreateChatCompletionRequestSchema, { params: { model } }));

function grpcWebErrorOf({ headers, body }: HttpAnswer): ConnectErrorFacts {
  const trailers = new Headers();
  const source =
    headers["grpc-status"] === undefined
      ? body.subarray(body.indexOf("grpc-status")).toString()
      : Object.entries(headers)
          .map(([name, value]) => `${name}: ${value}`)
          .join("\r\n");
  for (const line of source.split("\r\n").filter((text) => text.includes(":"))) {
    trailers.append(line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim());
  }
  const error = findTrailerError(trailers);
  return { code: error?.code, message: error?.rawMessage, reason: error?.findDetails(ErrorInfoSchema)[0]?.reason };
}

/** The protocols, with raw requests. */
const ways = [
  {
    name: "connect json",
    path: unaryPath,
    type: "application/json",
    frame: (m: Uint8Array) => m,
    encode: asJson,
    errorOf: connectErrorOf,
  },
  {
    name: "connect binary",
    path: unaryPath,
    type: "application/proto",
    frame: (m: Uint8Array) => m,
    encode: asBinary,
    errorOf: connectErrorOf,
  },
  {
    name: "connect stream",
    path: streamPath,
    type: "application/connect+proto",
    frame: envelope,
    encode: asBinary,
    errorOf: connectErrorOf,
  },
  {
    name: "grpc-web",
    path: unaryPath,
    type: "application/grpc-web+proto",
    frame: envelope,
    encode: asBinary,
    errorOf: grpcWebErrorOf,
  },
] as const;

describe.each(ways)("a request with $name", ({ path, type, frame, encode, errorOf }) => {
  const headers = { "content-type": type, authorization: handCredential };

  it("a client gets a rejection after its headers, and 100 Continue is not sent (SEC-5, GRPC-5, GRPC-21, GRPC-22)", async () => {
    const { core, url } = await startServer();
    core.beforeOpen = () => {
      throw new ServiceError("invalid_api_key", "No such key.");
    };
    const { req, answer } = startRequest(url + path, {
      ...headers,
      "content-length": 1_000_000,
      expect: "100-continue",
    });
    let asked = false;
    req.on("continue", () => {
      asked = true;
    });
    expect(errorOf(await answer)).toMatchObject({ code: Code.Unauthenticated, reason: "INVALID_API_KEY" });
    expect((await answer).headers["x-request-id"]).toMatch(/^req_/);
    expect(asked).toBe(false);
    req.destroy();
  });

  it("a compressed message is rejected, and the error names the encoding to use (GRPC-13)", async () => {
    const { url } = await startServer();
    const encoding = path === streamPath ? "connect-content-encoding" : "content-encoding";
    const name = type.includes("grpc-web") ? "grpc-encoding" : encoding;
    const message = errorOf(await request(url + path, { ...headers, [name]: "gzip" }, frame(encode("m"))));
    expect(message).toMatchObject({
      code: Code.Unimplemented,
      message: "Compressed messages ('gzip') are not supported: send the message with the encoding 'identity'.",
    });
  });

  it("a body is read after 100 Continue", async () => {
    const { url } = await startServer();
    const body = frame(encode("m"));
    const { req, answer } = startRequest(url + path, {
      ...headers,
      "content-length": body.length,
      expect: "100-continue",
    });
    req.once("continue", () => req.end(body));
    expect((await answer).status).toBe(200);
  });

  it("a message of the maximum size is accepted, and a larger one is rejected by its Content-Length (SEC-5, GRPC-12)", async () => {
    const { url } = await startServer({ limits: { bodyBytesMax } });
    const fits = frame(messageOf(bodyBytesMax, encode));
    expect((await request(url + path, headers, fits)).status).toBe(200);
    const { req, answer } = startRequest(url + path, { ...headers, "content-length": fits.length + 1 });
    expect(errorOf(await answer)).toMatchObject({ code: Code.ResourceExhausted, reason: "REQUEST_TOO_LARGE" });
    req.destroy();
  });

  it("a body without Content-Length is rejected when it exceeds the limit (SEC-5, GRPC-12)", async () => {
    const { core, url, bodies } = await startServer({ limits: { bodyBytesMax } });
    const { req, answer } = startRequest(url + path, { ...headers, "transfer-encoding": "chunked" });
    req.on("error", () => {});
    req.end(frame(messageOf(bodyBytesMax + 1, encode)));
    expect(errorOf(await answer)).toMatchObject({ code: Code.ResourceExhausted, reason: "REQUEST_TOO_LARGE" });
    await eventually(() => core.last.closed === 1, "the context is closed");
    expect(bodies.used).toBe(0);
  });

  it("bodies that are received at the same time stay within limits.bodies", async () => {
    const { url, bodies } = await startServer({ limits: { bodiesBytesMax: 100_000 } });
    const { req } = startRequest(url + path, { ...headers, "content-length": 95_000 });
    expect(bodies.used, "what is only announced takes nothing").toBe(0);
    req.write(Buffer.alloc(90_000));
    await eventually(() => bodies.used === 90_000, "the first body has its share");
    const second = await request(url + path, headers, frame(messageOf(20_000, encode)));
    expect(errorOf(second)).toMatchObject({ code: Code.Unavailable, reason: "SERVER_IS_OVERLOADED" });
    req.destroy();
    await eventually(() => bodies.used === 0, "the share is given back");
    expect((await request(url + path, headers, frame(messageOf(20_000, encode)))).status).toBe(200);
  });

  it("a body that arrives too slowly is rejected (SEC-6)", async () => {
    const { url } = await startServer({ limits: { bodyRateGraceMs: 50 } });
    const { req, answer } = startRequest(url + path, { ...headers, "content-length": 1_000 });
    req.on("error", () => {});
    req.write("{");
    expect(errorOf(await answer)).toMatchObject({ code: Code.DeadlineExceeded, reason: "REQUEST_TIMEOUT" });
  });

  it("a call that the service ends while its body arrives is answered immediately (GRPC-11)", async () => {
    const { core, url } = await startServer();
    const { req, answer } = startRequest(url + path, { ...headers, "content-length": 1_000 });
    req.on("error", () => {});
    const call = await core.opened();
    call.caller.abort.abort(new Ended("shutting_down"));
    expect(errorOf(await answer)).toMatchObject({ code: Code.Unavailable, reason: "SERVER_SHUTTING_DOWN" });
    await eventually(() => call.closed === 1, "the context is closed");
  });

  it("a client that disconnects while its body arrives leaves no open context and no charged bytes", async () => {
    const { core, url, bodies } = await startServer();
    const { req } = startRequest(url + path, { ...headers, "content-length": 1_000 });
    req.on("error", () => {});
    const call = await core.opened();
    req.destroy();
    await eventually(() => call.closed === 1, "the context is closed");
    expect(core.whyEnded(call)).toBe("client_left");
    expect(bodies.used).toBe(0);
  });

  it("a message that cannot be decoded is rejected with error details, and its context is closed (GRPC-9, GRPC-13)", async () => {
    const { core, url } = await startServer();
    const answer = await request(url + path, headers, frame(Buffer.from("ffffffff", "hex")));
    const isJson = type === "application/json";
    expect(errorOf(answer)).toMatchObject({
      code: isJson ? Code.InvalidArgument : Code.Internal,
      reason: isJson ? "INVALID_JSON" : "INVALID_VALUE",
      message: expect.stringMatching(/^The request's message cannot be read: ./) as string,
    });
    expect(answer.headers["x-request-id"]).toMatch(/^req_/);
    await eventually(() => core.last.closed === 1, "the context is closed");
    expect(core.last.refused).toBe(isJson ? "invalid_json" : "invalid_value");
  });

  it("a deadline that passes while the operation runs ends the call with ErrorInfo (ERR-25)", async () => {
    const { core, url } = await startServer();
    core.chat = (_params, ctx) => untilAborted(ctx.signal);
    core.chunks = (_params, ctx) => silentUntilAborted(ctx.signal);
    const timeout = type.includes("grpc-web") ? { "grpc-timeout": "50m" } : { "connect-timeout-ms": "50" };
    const pending = request(url + path, { ...headers, ...timeout }, frame(encode("m")));
    const call = await core.opened();
    expect(call.caller.deadlineAtMs).toBeLessThan(Date.now() + 1_000);
    call.caller.abort.abort(new Ended("deadline"));
    expect(errorOf(await pending)).toMatchObject({ code: Code.DeadlineExceeded, reason: "UPSTREAM_TIMEOUT" });
  });
});

it("a unary Connect call creates no Headers objects, which would cost more than the call (E-40)", async () => {
  const { url } = await startServer();
  const original = globalThis.Headers;
  let created = 0;
  globalThis.Headers = class extends original {
    constructor(init?: HeadersInit) {
      super(init);
      created += 1;
    }
  };
  onTestFinished(() => {
    globalThis.Headers = original;
  });
  for (const { path, type, frame, encode } of ways.filter(({ path }) => path === unaryPath)) {
    const headers = { "content-type": type, authorization: handCredential };
    expect((await request(url + path, headers, frame(encode("m")))).status).toBe(200);
  }
  expect(created).toBe(0);
});

it("Connect JSON that does not match the message is rejected by the field's name, not as malformed JSON (GRPC-9)", async () => {
  const { url } = await startServer();
  const body = '{"params":{"temperature":"warm"}}';
  const authorized = { authorization: handCredential };
  for (const [path, type, framed] of [
    [unaryPath, "application/json", Buffer.from(body)],
    [streamPath, "application/connect+json", envelope(Buffer.from(body))],
  ] as const) {
    const error = connectErrorOf(await request(url + path, { ...authorized, "content-type": type }, framed));
    expect(error).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_VALUE" });
    expect(error.message).toContain("temperature");
  }
});

describe("Connect requests that are not valid calls", () => {
  const unknownPath = "/unified.inference.v1.InferenceService/Nothing";

  it("are passed to the fallback route if they have another path, content type or method", async () => {
    const { core, url } = await startServer();
    const json = { "content-type": "application/json" };
    const answers = await Promise.all([
      request(`${url}/v1/models`, json),
      request(url + unknownPath, { "content-type": "text/plain" }),
      request(url + unknownPath, json, "", "GET"),
    ]);
    expect(answers.map(({ body }) => body.toString())).toEqual(["fallback", "fallback", "fallback"]);
    expect(core.calls).toHaveLength(0);
  });

  it.each([
    ["application/json", 404, connectErrorOf],
    ["application/proto", 404, connectErrorOf],
    ["application/connect+json", 200, connectErrorOf],
    ["application/grpc-web+proto", 200, grpcWebErrorOf],
  ])(
    "are refused in the protocol of %s for an RPC that does not exist (GRPC-21, GRPC-22)",
    async (type, status, errorOf) => {
      const { url } = await startServer();
      const answer = await request(url + unknownPath, { "content-type": type }, "{}");
      expect(answer.status).toBe(status);
      expect(errorOf(answer)).toMatchObject({ code: Code.Unimplemented, reason: "UNKNOWN_URL" });
      expect(answer.headers["x-request-id"]).toMatch(/^req_/);
    },
  );

  it("get 405 with Allow for the method GET, after the check of the credential", async () => {
    const { core, url } = await startServer();
    const answer = await request(url + unaryPath, { authorization: handCredential }, "", "GET");
    expect(answer.status).toBe(405);
    expect(answer.headers.allow).toBe("POST");
    expect(connectErrorOf(answer).reason).toBe("METHOD_NOT_ALLOWED");
    core.beforeOpen = () => {
      throw new ServiceError("invalid_api_key", "No such key.");
    };
    expect((await request(url + unaryPath, {}, "", "GET")).status).toBe(401);
  });

  it.each([
    ["text/plain", unaryPath],
    ["", unaryPath],
    ["application/grpc", unaryPath],
    ["application/grpc-web-text", unaryPath],
    ["application/connect+json", unaryPath],
    ["application/json", streamPath],
  ])("get 415 for the content type '%s' of %s", async (type, path) => {
    const { core, url } = await startServer();
    const answer = await request(url + path, { "content-type": type, authorization: handCredential }, "{}");
    expect(answer.status).toBe(415);
    expect(connectErrorOf(answer).reason).toBe("UNSUPPORTED_MEDIA_TYPE");
    await eventually(() => core.last.closed === 1, "the context is closed");
  });

  it("are refused for a timeout that cannot be parsed", async () => {
    const { url } = await startServer();
    const headers = { "content-type": "application/json", authorization: handCredential, "connect-timeout-ms": "soon" };
    const error = connectErrorOf(await request(url + unaryPath, headers, "{}"));
    expect(error).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_VALUE" });
  });

  it("are served with a timeout that is too long for a Node timer (GRPC-23)", async () => {
    const { url } = await startServer();
    const headers = { "content-type": "application/json", authorization: handCredential };
    const long = { ...headers, "connect-timeout-ms": "9999999999" };
    expect((await request(url + unaryPath, long, "{}")).status).toBe(200);
  });
});

describe("a Connect client that does not read", () => {
  it.each(["application/connect+proto", "application/grpc-web+proto"])(
    "pauses the engine with %s and is disconnected after limits.stall (REL-1, GRPC-14)",
    async (type) => {
      const { core, url } = await startServer({ limits: { stallMs: 200 } });
      let pieces = 0;
      core.chunks = async function* (_params, ctx) {
        for (; !ctx.signal.aborted && pieces < 8 * 1024; pieces += 1) yield textChunk("x".repeat(8 * 1024));
      };
      const body = envelope(asBinary("m"));
      const { req } = startRequest(url + streamPath, {
        "content-type": type,
        authorization: handCredential,
        "content-length": body.length,
      });
      req.on("error", () => {});
      req.on("response", (res) => res.pause());
      req.end(body);
      const call = await core.opened();
      await eventually(() => call.closed === 1, "the context is closed");
      expect(core.whyEnded(call)).toBe("stalled");
      expect(pieces).toBeLessThan(8 * 1024);
      req.destroy();
    },
  );

  it("receives the error of its call when it reads again", async () => {
    const { core, url } = await startServer();
    let pieces = 0;
    core.chunks = async function* (_params, ctx) {
      for (; !ctx.signal.aborted; pieces += 1) yield textChunk("x".repeat(8 * 1024));
      await untilAborted(ctx.signal);
    };
    const body = envelope(asBinary("m"));
    const { req, answer } = startRequest(url + streamPath, {
      "content-type": "application/connect+proto",
      authorization: handCredential,
      "content-length": body.length,
    });
    const response = new Promise<IncomingMessage>((resolve) => req.once("response", resolve));
    req.end(body);
    (await response).pause();
    let before = -1;
    await eventually(() => {
      const stuck = pieces === before;
      before = pieces;
      return stuck;
    }, "the engine is held back");
    core.last.caller.abort.abort(new Ended("key_revoked"));
    (await response).resume();
    expect(connectErrorOf(await answer)).toMatchObject({ code: Code.Unauthenticated, reason: "INVALID_API_KEY" });
  });
});
