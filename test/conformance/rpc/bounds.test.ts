import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SessionService } from "../../../gen/unified/admin/v1/session_service_pb.js";
import { CatalogService } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import { grpcPath } from "../../../src/lib/grpc-definition.js";
import { connectErrorOf, envelope, request, startRequest } from "../../support/connect-http.js";
import { eventually } from "../../support/eventually.js";
import { errorFacts } from "../../support/grpc-client.js";
import { answerOf, grpcFrame, RawGrpc, statusOf } from "../../support/raw-grpc.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { createChatCompletion, streamChatCompletion } from "./chat-requests.js";

const mebibyte = 1024 * 1024;
/** Five times the bound of 50 ms: CPU of this whole process, client and test runner included. */
const cpuMsMax = 250;

const filled = (piece: string | Uint8Array, bytes: number): Buffer => Buffer.alloc(bytes, piece);

/** Encodes field 1 with a length, which is `params` in every chat request. */
function paramsOf(content: Buffer): Buffer {
  const length: number[] = [];
  for (let rest = content.length; rest > 0; rest = Math.floor(rest / 128)) length.push((rest % 128) | 0x80);
  length[length.length - 1] = (length.at(-1) ?? 0) & 0x7f;
  return Buffer.concat([Buffer.from([0x0a, ...length]), content]);
}

/** Protobuf bytes that would decode into millions of objects: unknown fields, empty messages, nested groups. */
const protobufBombs = {
  "unknown fields": filled(Buffer.from("7800", "hex"), 19 * mebibyte),
  "empty messages": paramsOf(filled(Buffer.from("1200", "hex"), 19 * mebibyte)),
  "nested groups": filled(Buffer.from("7b", "hex"), 19 * mebibyte),
};

const jsonBombs = {
  "empty arrays": Buffer.concat([Buffer.from('{"a":['), filled("[],", 19 * mebibyte)]),
  "nested arrays": filled("[", 19 * mebibyte),
};

describe("bounds of messages", () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.close());

  const chat = grpcPath(createChatCompletion);
  const stream = grpcPath(streamChatCompletion);
  const authorized = (key: string, type: string) => ({ authorization: `Bearer ${key}`, "content-type": type });

  /**
   * Runs a call once to warm up and then three times, and expects the lowest CPU of the three within the bound: collections of
   * garbage and other work of this process only ever add to it.
   */
  async function cheaply<T>(call: () => Promise<T>): Promise<T> {
    let answer = await call();
    const cpuMs: number[] = [];
    for (let run = 0; run < 3; run += 1) {
      const before = process.cpuUsage();
      answer = await call();
      const { user, system } = process.cpuUsage(before);
      cpuMs.push((user + system) / 1000);
    }
    expect(Math.min(...cpuMs)).toBeLessThan(cpuMsMax);
    return answer;
  }

  it.each(Object.entries(protobufBombs))(
    "reject millions of objects in protobuf before they are decoded, on every protocol: %s (SEC-9, E-1)",
    async (_name, bomb) => {
      const invalid = { reason: "INVALID_VALUE" };
      const unary = await cheaply(() =>
        request(service.http + chat, authorized(service.key, "application/proto"), bomb),
      );
      expect(connectErrorOf(unary)).toMatchObject(invalid);
      const type = "application/connect+proto";
      const streamed = await cheaply(() =>
        request(service.http + stream, authorized(service.key, type), envelope(bomb)),
      );
      expect(connectErrorOf(streamed)).toMatchObject(invalid);
      const web = authorized(service.key, "application/grpc-web+proto");
      const { headers } = await cheaply(() => request(service.http + chat, web, envelope(bomb)));
      expect(headers["grpc-status"]).toBe("3");
      const raw = new RawGrpc(service.grpc);
      const { authorization } = web;
      const grpc = await cheaply(() => raw.call(chat, grpcFrame(bomb), { authorization }));
      expect(errorFacts(statusOf(grpc))).toMatchObject(invalid);
      const inflated = grpcFrame(gzipSync(bomb), true);
      const gzip = { authorization, "grpc-encoding": "gzip" };
      expect(errorFacts(statusOf(await raw.call(chat, inflated, gzip)))).toMatchObject(invalid);
      raw.close();
    },
  );

  it.each(Object.entries(jsonBombs))(
    "reject millions of objects in JSON before they are parsed, on REST and RPCs: %s (SEC-9, E-1)",
    async (_name, bomb) => {
      const json = authorized(service.key, "application/json");
      const rest = await cheaply(() => request(`${service.api}/chat/completions`, json, bomb));
      expect([rest.status, JSON.parse(rest.body.toString()).error.code]).toEqual([400, "invalid_json"]);
      const unary = await cheaply(() => request(service.http + chat, json, bomb));
      expect(connectErrorOf(unary)).toMatchObject({ reason: "INVALID_JSON" });
      const type = "application/connect+json";
      const streamed = await cheaply(() =>
        request(service.http + stream, authorized(service.key, type), envelope(bomb)),
      );
      expect(connectErrorOf(streamed)).toMatchObject({ reason: "INVALID_JSON" });
    },
  );

  it("reject millions of unknown fields from a key with the scope read (SEC-9, E-1)", async () => {
    const bomb = protobufBombs["unknown fields"];
    const list = grpcPath(CatalogService.method.listModels);
    const headers = authorized(service.readKey, "application/proto");
    expect(connectErrorOf(await cheaply(() => request(service.http + list, headers, bomb))).reason).toBe(
      "INVALID_VALUE",
    );
  });

  it("a fault in the head of a request is answered in the request's own protocol (GRPC-21)", async () => {
    const call = (type: string) =>
      request(
        service.http + chat,
        { ...authorized(service.key, type), "x-many": Array.from({ length: 101 }, () => "x") },
        "{}",
      );
    const reason = "REQUEST_HEADERS_TOO_LARGE";
    const unary = await call("application/json");
    expect(unary.status).toBe(431);
    expect(connectErrorOf(unary)).toMatchObject({ reason });
    const streamed = await call("application/connect+json");
    expect(streamed.status).toBe(200);
    expect(connectErrorOf(streamed)).toMatchObject({ reason });
    const { status, headers } = await call("application/grpc-web+proto");
    expect([status, headers["grpc-status"]]).toEqual([200, "8"]);
  });

  it("allow at most 16 KiB for RPCs of sessions, which need no credential, on every protocol (SEC-9, SEC-5)", async () => {
    const tooLarge = { reason: "REQUEST_TOO_LARGE" };
    const { signIn, completeSetup, changePassword } = SessionService.method;
    const raw = new RawGrpc(service.grpc);
    for (const path of [signIn, completeSetup].map(grpcPath)) {
      for (const size of [16 * 1024 + 1, 19 * mebibyte]) {
        const bytes = filled(Buffer.from("7800", "hex"), size);
        const proto = await cheaply(() => request(service.http + path, { "content-type": "application/proto" }, bytes));
        expect(connectErrorOf(proto)).toMatchObject(tooLarge);
        const json = await request(service.http + path, { "content-type": "application/json" }, filled("[", size));
        expect(connectErrorOf(json)).toMatchObject(tooLarge);
        const web = await request(
          service.http + path,
          { "content-type": "application/grpc-web+proto" },
          envelope(bytes),
        );
        expect(web.headers["grpc-status"]).toBe("8");
        expect(errorFacts(statusOf(await cheaply(() => raw.call(path, grpcFrame(bytes)))))).toMatchObject(tooLarge);
      }
      const inflated = grpcFrame(gzipSync(filled(Buffer.from("7800", "hex"), 17 * 1024)), true);
      const refused = await raw.call(path, inflated, { "grpc-encoding": "gzip" });
      expect(errorFacts(statusOf(refused))).toMatchObject(tooLarge);
    }
    const token = { authorization: `Bearer ${service.adminToken}` };
    const change = await raw.call(grpcPath(changePassword), grpcFrame(filled("x", 17 * 1024)), token);
    expect(errorFacts(statusOf(change))).toMatchObject(tooLarge);
    raw.close();
  });

  it("allow at most 16 KiB for health and reflection, which need no credential (SEC-5)", async () => {
    const raw = new RawGrpc(service.grpc);
    const check = "/grpc.health.v1.Health/Check";
    const name = Buffer.concat([Buffer.from("0a8180", "hex"), Buffer.from([0x01]), filled("x", 16 * 1024 + 1)]);
    expect(statusOf(await raw.call(check, grpcFrame(name))).code).toBe(8);
    expect(statusOf(await raw.call(check, grpcFrame(Buffer.alloc(0)))).code).toBe(0);
    raw.close();
  });

  it("reject a caller without a valid key before its message arrives, on every protocol (SEC-5, GRPC-5)", async () => {
    const raw = new RawGrpc(service.grpc);
    const stream = raw.start(chat, { authorization: "Bearer wrong" });
    expect(errorFacts(statusOf(await answerOf(stream))).reason).toBe("INVALID_API_KEY");
    raw.close();
  });

  it("ignore unknown fields of a valid request in every codec (DEC-9)", async () => {
    const raw = new RawGrpc(service.grpc);
    const { authorization } = authorized(service.readKey, "");
    const list = grpcPath(CatalogService.method.listModels);
    const unknown = Buffer.from("f87f01fa7f0161", "hex");
    expect(statusOf(await raw.call(list, grpcFrame(unknown), { authorization })).code).toBe(0);
    const proto = await request(service.http + list, authorized(service.readKey, "application/proto"), unknown);
    expect(proto.status).toBe(200);
    const json = await request(
      service.http + list,
      authorized(service.readKey, "application/json"),
      '{"new":[{"a":1}]}',
    );
    expect(json.status).toBe(200);
    raw.close();
  });
});

describe("bodies that are being received", () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService({
      config: { limits: { body_bytes_max: "1MiB", bodies_bytes_max: "2MiB", body_rate_grace: "2s" } },
    });
  });
  afterAll(() => service.close());

  /** A whole chat over REST whose body is sent after its head. */
  async function chatOverRest(): Promise<number> {
    const body = JSON.stringify({
      model: "test-chat",
      messages: [{ role: "user", content: "x".repeat(300_000) }],
      max_tokens: 1,
    });
    const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
    const { req, answer } = startRequest(`${service.api}/chat/completions`, headers);
    req.write(body.slice(0, 200_000));
    await new Promise((resolve) => req.write(body.slice(200_000), resolve));
    req.end();
    return (await answer).status;
  }

  it("share one byte budget over all protocols, and release it when their stream ends (SEC-9, E-2)", async () => {
    expect(await chatOverRest()).toBe(200);
    const raw = new RawGrpc(service.grpc);
    const stream = raw.start(grpcPath(createChatCompletion), { authorization: `Bearer ${service.key}` });
    const sent = grpcFrame(Buffer.alloc(1_000_000)).subarray(0, 900_000);
    await new Promise((resolve) => stream.write(sent, resolve));
    await eventually(async () => (await chatOverRest()) === 503);
    stream.close();
    await eventually(async () => (await chatOverRest()) === 200);
    raw.close();
  });

  it("are rejected on gRPC and REST if they make no progress (SEC-6, E-2)", async () => {
    const raw = new RawGrpc(service.grpc);
    const stream = raw.start(grpcPath(createChatCompletion), { authorization: `Bearer ${service.key}` });
    const answer = answerOf(stream);
    stream.write(grpcFrame(Buffer.alloc(1_000_000)).subarray(0, 10_000));
    expect(errorFacts(statusOf(await answer)).reason).toBe("REQUEST_TIMEOUT");
    raw.close();
  });
});
