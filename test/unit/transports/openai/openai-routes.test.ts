import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { defaultLimits, type ServiceLimits } from "../../../../src/contract/limits.js";
import type { Logger } from "../../../../src/domain/call/ports.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { createSystemClock } from "../../../../src/lib/clock.js";
import { createRandomIds } from "../../../../src/lib/crypto.js";
import { createResponseWatch } from "../../../../src/transports/http/answer.js";
import { BodyBudget, createUploadWatch } from "../../../../src/transports/http/body.js";
import { createHttpListener, type HttpListener } from "../../../../src/transports/http/listener.js";
import { RouteTable } from "../../../../src/transports/http/routes.js";
import { createOpenAiRoutes, openAiFamily } from "../../../../src/transports/openai/routes.js";
import { eventually } from "../../../support/eventually.js";
import { HandCore, handCredential, textChunk, untilAborted } from "../../../support/hand-core.js";
import { connectRaw, parseAnswer, postText } from "../../../support/raw-connection.js";
import { silentLog } from "../../../support/silent-log.js";

const clock = createSystemClock();
const ids = createRandomIds();
const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }] });
const streamBody = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }], stream: true });
const path = "/v1/chat/completions";
const responses = "/v1/responses";
const responseBody = JSON.stringify({ model: "m", input: "Hi" });
const streamedResponseBody = JSON.stringify({ model: "m", input: "Hi", stream: true });

const unasked = (): Promise<never> => Promise.reject(new Error("no test of this file asks for webhooks"));
const noWebhooks = { create: unasked, list: unasked, get: unasked, remove: unasked };

/** A barrier at which callers wait until the test releases it. */
function createGate() {
  let open = (): void => {};
  let reach = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  return {
    reached,
    open: () => open(),
    pass(): Promise<void> {
      reach();
      return opened;
    },
  };
}

async function open(core: HandCore, changes: Partial<ServiceLimits> = {}, log: Logger = silentLog) {
  const limits = { ...defaultLimits, ...changes };
  const bodies = new BodyBudget(limits);
  const watch = createResponseWatch(limits, () => clock.monotonic());
  const uploads = createUploadWatch(limits, () => clock.monotonic());
  const rest = createOpenAiRoutes({
    core,
    limits,
    clock,
    ids,
    log,
    bodies,
    uploads,
    watch,
    usage: { query: async () => ({ buckets: [], next: null }) },
    webhookEndpoints: noWebhooks,
    storedResponses: null,
    keepAlive: "comment",
    pages: new Map(),
    otherPaths: [],
  });
  const routes = new RouteTable(rest.routes, rest.refuseUnknown);
  const { errorToJson } = openAiFamily;
  const listener = createHttpListener({
    limits,
    corsOrigins: [],
    allowedHosts: [],
    tls: null,
    connectionLimit: null,
    ids,
    log,
    routes,
    errorToJson,
  });
  const base = `http://127.0.0.1:${await listener.listen("127.0.0.1", 0)}`;
  return { base, bodies, watch, listener };
}

describe("a call of the REST transport", () => {
  let core: HandCore;
  let listener: HttpListener;
  let base: string;
  let bodies: { readonly used: number };
  let watch: { readonly size: number };

  beforeEach(async () => {
    core = new HandCore();
    ({ base, listener, bodies, watch } = await open(core));
  });
  afterEach(() => listener.close());

  /** Expects that each context was closed once, and that no response watch, charged body or connection is left. */
  async function expectNothingLeft(): Promise<void> {
    await eventually(() => core.calls.every(({ closed }) => closed === 1), "every context is closed once");
    await eventually(() => watch.size === 0 && bodies.used === 0 && listener.connections() === 0, "nothing is left");
  }

  it("begins when the headers have arrived, and closes its context without an abort after a successful answer", async () => {
    const connection = await connectRaw(base);
    connection.send(postText(path, handCredential, body, ["Connection: close"]));
    expect(parseAnswer(await connection.closed()).status).toBe(200);
    expect(core.whyEnded(core.last)).toBeNull();
    expect(core.last.caller).toMatchObject({
      transport: "openai",
      authorization: handCredential,
      address: "127.0.0.1",
    });
    await expectNothingLeft();
  });

  it.each([body, streamBody])("names the deployment and the attempts in headers (%#)", async (sent) => {
    const connection = await connectRaw(base);
    connection.send(postText(path, handCredential, sent, ["Connection: close"]));
    const { headers } = parseAnswer(await connection.closed());
    expect(headers).toMatchObject({ "x-uis-deployment": "m/0", "x-uis-attempts": "1" });
    expect(headers).not.toHaveProperty("x-uis-model");
  });

  it("ends if the client disconnects during the check of its credential (SSE-14)", async () => {
    const opening = createGate();
    core.beforeOpen = () => opening.pass();
    const connection = await connectRaw(base);
    connection.send(postText(path, handCredential, body));
    await opening.reached;
    connection.destroy();
    await eventually(() => listener.connections() === 0);
    opening.open();
    expect(core.whyEnded(await core.opened())).toBe("client_left");
    await expectNothingLeft();
  });

  it("ends if the client disconnects while its body arrives (SSE-14)", async () => {
    const connection = await connectRaw(base);
    connection.send(postText(path, handCredential, body).slice(0, -10));
    const call = await core.opened();
    connection.destroy();
    await eventually(() => core.whyEnded(call) === "client_left");
    await expectNothingLeft();
  });

  it.each([
    ["chat", path, body],
    ["streamed chat", path, streamBody],
    ["response", responses, responseBody],
    ["streamed response", responses, streamedResponseBody],
  ])("ends if the client disconnects during the answer (%s) (SSE-14, RETRY-6)", async (kind, asked, sent) => {
    core.chat = (_, ctx) => untilAborted(ctx.signal);
    core.chunks = async function* (_, ctx) {
      yield textChunk("Hel");
      await untilAborted(ctx.signal);
    };
    const connection = await connectRaw(base);
    connection.send(postText(asked, handCredential, sent));
    if (kind.startsWith("streamed")) await connection.until("Hel");
    const call = await core.opened();
    connection.destroy();
    await eventually(() => core.whyEnded(call) === "client_left");
    await expectNothingLeft();
  });

  it("is served in order if it is pipelined, and not at all if the client has disconnected (SSE-14)", async () => {
    const work = createGate();
    core.chat = () => work.pass().then(() => "Done.");
    const patient = await connectRaw(base);
    patient.send(postText(path, handCredential, body) + postText(path, handCredential, body, ["Connection: close"]));
    await work.reached;
    expect(core.calls).toHaveLength(1);
    work.open();
    expect((await patient.closed()).split("HTTP/1.1 200 OK")).toHaveLength(3);
    expect(core.calls).toHaveLength(2);

    core.chat = (_, ctx) => untilAborted(ctx.signal);
    const leaving = await connectRaw(base);
    leaving.send(postText(path, handCredential, body).repeat(3));
    await core.opened(3);
    leaving.destroy();
    await expectNothingLeft();
    expect(core.calls).toHaveLength(3);
  });

  it("is disconnected with its client if that pipelines too many requests (SEC-6)", async () => {
    core.chat = (_, ctx) => untilAborted(ctx.signal);
    const connection = await connectRaw(base);
    connection.send(postText(path, handCredential, body).repeat(100));
    expect(await connection.closed()).toBe("");
    await expectNothingLeft();
  });

  it("counts as ended by the deadline if the client disconnects at its own deadline", async () => {
    core.chat = (_, ctx) => untilAborted(ctx.signal);
    const connection = await connectRaw(base);
    connection.send(postText(path, handCredential, body, ["X-Request-Timeout: 0.02"]));
    const call = await core.opened();
    expect(call.caller.deadlineAtMs).toBeLessThanOrEqual(clock.now() + 20);
    connection.destroy();
    await eventually(() => core.whyEnded(call) === "deadline");
  });

  it("is answered immediately if it is ended while its body still arrives", async () => {
    const connection = await connectRaw(base);
    connection.send(postText(path, handCredential, body).slice(0, -10));
    const call = await core.opened();
    const { Ended } = await import("../../../../src/domain/call/call-context.js");
    call.caller.abort.abort(new Ended("key_revoked"));
    const answer = parseAnswer(await connection.until("invalid_api_key"));
    expect(answer.status).toBe(401);
    expect(answer.headers["connection"]).toBe("close");
    connection.destroy();
    await expectNothingLeft();
  });

  it("gets 100 Continue only after its credential was accepted (CONN-6)", async () => {
    const opening = createGate();
    core.beforeOpen = () => opening.pass();
    const connection = await connectRaw(base);
    const whole = postText(path, handCredential, body, ["Expect: 100-continue", "Connection: close"]);
    connection.send(whole.slice(0, -body.length));
    await opening.reached;
    expect(connection.received).toBe("");
    opening.open();
    await connection.until("HTTP/1.1 100 Continue\r\n\r\n");
    connection.send(body);
    expect(await connection.closed()).toContain("HTTP/1.1 200 OK");
    await expectNothingLeft();
  });

  it("does not get 100 Continue if it is rejected (CONN-6)", async () => {
    core.beforeOpen = () => {
      throw new ServiceError("invalid_api_key", "No.");
    };
    const connection = await connectRaw(base);
    const whole = postText(path, "Bearer bad", body, ["Expect: 100-continue"]);
    connection.send(whole.slice(0, -body.length));
    const raw = await connection.closed();
    expect(raw).not.toContain("100 Continue");
    expect(parseAnswer(raw).status).toBe(401);
  });

  it("is rejected readably even if the client reads only after it has sent its whole body (CONN-5)", async () => {
    core.beforeOpen = () => {
      throw new ServiceError("invalid_api_key", "No.");
    };
    const connection = await connectRaw(base);
    connection.pause();
    connection.send(postText(path, "Bearer bad", "x".repeat(8 * 1024 * 1024)));
    await eventually(() => connection.socket.writableLength === 0, "all is sent");
    connection.resume();
    expect(parseAnswer(await connection.closed()).status).toBe(401);
    await expectNothingLeft();
  });

  it("gets 500 for an unexpected error, whose cause is only in the log with the request id (ERR-22, ERR-2)", async () => {
    await listener.close();
    const error = vi.fn();
    ({ base, listener } = await open(core, {}, { ...silentLog, error }));
    core.chat = () => {
      throw new Error("password of the database");
    };
    const connection = await connectRaw(base);
    connection.send(postText(path, handCredential, body, ["Connection: close"]));
    const answer = parseAnswer(await connection.closed());
    expect(answer.status).toBe(500);
    expect(JSON.parse(answer.body).error.code).toBe("internal_error");
    expect(answer.body).not.toContain("password");
    const requestId = answer.headers["x-request-id"];
    expect(error).toHaveBeenCalledWith(expect.objectContaining({ request_id: requestId }), expect.any(String));
  });

  it("gets one error event at the end of its stream for an unexpected error (SERR-1, SERR-4)", async () => {
    core.chunks = async function* () {
      yield textChunk("Hel");
      throw new ServiceError("upstream_error", "The engine stopped.");
    };
    const connection = await connectRaw(base);
    connection.send(postText(path, handCredential, streamBody, ["Connection: close"]));
    const { body: events } = parseAnswer(await connection.closed());
    expect(events.split("\n\n").slice(1)).toEqual([
      'data: {"error":{"message":"The engine stopped.","type":"server_error","param":null,"code":"upstream_error"}}',
      "",
    ]);
    await expectNothingLeft();
  });

  it("ends after the stall time if the client does not read its stream, and little is buffered until then (REL-1)", async () => {
    await listener.close();
    ({ base, listener, watch, bodies } = await open(core, { stallMs: 100 }));
    let produced = 0;
    core.chunks = async function* (_, ctx) {
      while (!ctx.signal.aborted) {
        produced += 1;
        yield textChunk("x".repeat(8 * 1024));
      }
    };
    const connection = await connectRaw(base);
    connection.pause();
    connection.send(postText(path, handCredential, streamBody));
    const call = await core.opened();
    await eventually(() => core.whyEnded(call) === "stalled");
    // Kernel buffers hold megabytes; without backpressure gigabytes would have been produced by now.
    expect(produced).toBeLessThan(4_000);
    connection.destroy();
    await expectNothingLeft();
  });

  it("ends after the stall time if the client does not read a whole answer (REL-1)", async () => {
    await listener.close();
    ({ base, listener, watch, bodies } = await open(core, { stallMs: 100 }));
    core.chat = () => "x".repeat(64 * 1024 * 1024);
    const connection = await connectRaw(base);
    connection.pause();
    connection.send(postText(path, handCredential, body));
    await core.opened();
    await eventually(() => core.calls[0]?.closed === 1);
    connection.destroy();
    await expectNothingLeft();
  });

  it("gets comments with one line feed between the events of a silent stream (SSE-8, CONN-2)", async () => {
    await listener.close();
    ({ base, listener } = await open(core, { sseKeepAliveMs: 30 }));
    const silence = createGate();
    core.chunks = async function* () {
      await silence.pass();
      yield textChunk("late");
    };
    const connection = await connectRaw(base);
    connection.send(postText(path, handCredential, streamBody, ["Connection: close"]));
    await connection.until((received) => received.split(": keep-alive\n").length > 2);
    silence.open();
    const { body: events } = parseAnswer(await connection.closed());
    expect(events).toMatch(/^(: keep-alive\n){2,}data: \{[^\n]*late[^\n]*\n\ndata: \[DONE\]\n\n$/);
  });

  it("gets the first events of a response before it waits, and then comments as keep-alives (SSE-8, RSP-6)", async () => {
    await listener.close();
    ({ base, listener } = await open(core, { sseKeepAliveMs: 30 }));
    const silence = createGate();
    core.chunks = async function* () {
      await silence.pass();
      yield textChunk("late");
    };
    const connection = await connectRaw(base);
    connection.send(postText(responses, handCredential, streamedResponseBody, ["Connection: close"]));
    await connection.until((received) => received.split(": keep-alive\n").length > 2);
    silence.open();
    const { body: events } = parseAnswer(await connection.closed());
    expect(events).toMatch(/^event: response\.created\ndata: [^\n]+\n\nevent: response\.in_progress\ndata: [^\n]+\n\n/);
    expect(events).toMatch(/\n\n(: keep-alive\n){2,}event: response\.output_item\.added\n/);
  });

  it("gets 503 if its body exceeds the byte budget, and is served when bytes were released", async () => {
    await listener.close();
    ({ base, listener, watch, bodies } = await open(core, { bodiesBytesMax: 1_000 }));
    const large = await connectRaw(base);
    large.send(postText(path, handCredential, "x".repeat(900)).slice(0, -1));
    await eventually(() => bodies.used > 800);
    const refused = await connectRaw(base);
    refused.send(postText(path, handCredential, body + " ".repeat(300), ["Connection: close"]));
    expect(parseAnswer(await refused.closed())).toMatchObject({ status: 503, headers: { "retry-after": "1" } });
    large.destroy();
    await eventually(() => bodies.used === 0);
    const served = await connectRaw(base);
    served.send(postText(path, handCredential, body, ["Connection: close"]));
    expect(parseAnswer(await served.closed()).status).toBe(200);
    await expectNothingLeft();
  });

  it("keeps its connection during a drain until its answer is sent; idle connections are closed immediately", async () => {
    const idle = await connectRaw(base);
    idle.send(postText(path, handCredential, body));
    await idle.until("chat.completion");
    const work = createGate();
    core.chat = () => work.pass().then(() => "Done.");
    const busy = await connectRaw(base);
    busy.send(postText(path, handCredential, body));
    await work.reached;
    listener.beginDrain();
    await idle.closed();
    work.open();
    const answer = parseAnswer(await busy.closed());
    expect(answer).toMatchObject({ status: 200, headers: { connection: "close" } });
    await expectNothingLeft();
  });
});
