import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { connectRaw, parseAnswer, postText } from "../../support/raw-connection.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError, user } from "./api.js";

const chatPath = "/v1/chat/completions";
const chatBody = JSON.stringify({ model: "test-chat", messages: [user] });

let service: RunningService;
let api: Api;

/** Sends bytes and returns everything that the server sent until it closed. */
async function exchange(...pieces: readonly (string | Uint8Array)[]) {
  const connection = await connectRaw(service.http);
  for (const piece of pieces) connection.send(piece);
  const raw = await connection.closed();
  return { raw, ...parseAnswer(raw), answers: raw.split("HTTP/1.1 ").length - 1 };
}

function expectRawError(
  answer: { status: number; headers: Readonly<Record<string, string>>; body: string },
  status: number,
  code: string,
) {
  expect({ status: answer.status, code: JSON.parse(answer.body).error.code }).toEqual({ status, code });
  expect(Object.keys(JSON.parse(answer.body).error).sort()).toEqual(["code", "message", "param", "type"]);
  expect(answer.headers).toMatchObject({
    connection: "close",
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(answer.body)),
    "x-request-id": expect.stringMatching(/^req_[0-9a-f]{32}$/),
    "x-content-type-options": "nosniff",
  });
}

/** Expects that other clients are served and no call is left open. */
async function expectHealthy(): Promise<void> {
  expect((await api.chat()).status).toBe(200);
  await eventually(async () => {
    const { requests } = await service.debugState();
    return requests.running === 0 && requests.waiting === 0;
  }, "no request is left");
}

describe("the head of a request on a connection", () => {
  beforeAll(async () => {
    service = await startService();
    api = createApi(service);
  });
  afterAll(() => service.close());
  afterEach(() => expectHealthy());

  const host = "Host: localhost";
  const key = () => `Authorization: Bearer ${service.key}`;
  const get = (...lines: string[]) => [`GET /v1/models HTTP/1.1`, ...lines, "", ""].join("\r\n");
  const post = (...lines: string[]) =>
    [`POST ${chatPath} HTTP/1.1`, ...lines, `Content-Length: ${chatBody.length}`, "", chatBody].join("\r\n");

  it.each([
    ["two Host headers", () => get(host, host, key())],
    ["two different Host headers", () => get(host, "Host: evil.example", key())],
    ["two Authorization headers", () => get(host, key(), key())],
    ["two Authorization headers, one of them bad", () => get(host, key(), "Authorization: Bearer x")],
    ["two Content-Type headers", () => post(host, key(), "Content-Type: application/json", "content-type: text/plain")],
    [
      "two Content-Length headers",
      () => post(host, key(), "Content-Type: application/json", `Content-Length: ${chatBody.length}`),
    ],
    [
      "Content-Length and chunks in one request",
      () => post(host, key(), "Content-Type: application/json", "Transfer-Encoding: chunked"),
    ],
    ["an unknown transfer encoding", () => get(host, key(), "Transfer-Encoding: xchunked")],
    ["a stacked transfer encoding", () => get(host, key(), "Transfer-Encoding: gzip, chunked")],
    ["no Host header", () => get(key())],
    ["a header name with an underscore", () => get(host, key(), "x_request_id: 1")],
    ["a folded header", () => get(host, key(), "X-A: 1\r\n  2")],
    ["a blank before the colon", () => get(host, key(), "X-A : 1")],
    ["a bare line feed", () => get(host, key(), "X-A: 1\nX-B: 2")],
    ["a target with a foreign host", () => `GET http://evil.example/v1/models HTTP/1.1\r\n${host}\r\n${key()}\r\n\r\n`],
    ["another protocol", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["no HTTP at all", () => "\x16\x03\x01\x00\xf0hello\r\n\r\n"],
  ])("is answered with 400, and later requests are not answered: %s (SEC-4, ERR-1)", async (_, text) => {
    const answer = await exchange(text(), get(host, key()));
    expectRawError(answer, 400, "invalid_value");
    expect(answer.answers).toBe(1);
  });

  it("does not reach the core if it is rejected, and neither do later requests (SEC-4)", async () => {
    const before = service.logs.length;
    await exchange(get(host, key(), key()) + get(host, key()));
    const next = (await api.chat()).headers.get("x-request-id");
    const served = () => service.logs.slice(before).filter((line) => line["operation"] !== undefined);
    await eventually(() => served().some((line) => line["request_id"] === next));
    expect(served().map((line) => line["request_id"])).toEqual([next]);
  });

  it("may have 30 KiB of headers; 40 KiB are answered with 431 (HDR-7, SEC-5, ERR-1)", async () => {
    const filler = (bytes: number) => Array.from({ length: bytes / 1024 }, (_, i) => `X-${i}: ${"a".repeat(1010)}`);
    const served = await exchange(get(host, key(), "Connection: close", ...filler(30 * 1024)));
    expect(served.status).toBe(200);
    expectRawError(await exchange(get(host, key(), ...filler(40 * 1024))), 431, "request_headers_too_large");
    expectRawError(
      await exchange(get(host, key(), `X-A: ${"a".repeat(1024 * 1024)}`)),
      431,
      "request_headers_too_large",
    );
  });

  it("may have 100 header lines, of which none is dropped; 101 are answered with 431 (SEC-5)", async () => {
    const lines = (count: number) =>
      get(host, key(), "Connection: close", ...Array.from({ length: count - 3 }, (_, i) => `X-${i}: 1`));
    expect((await exchange(lines(100))).status).toBe(200);
    expectRawError(await exchange(lines(101)), 431, "request_headers_too_large");
  });

  it("may have a URL of 8 KiB; a longer one is answered with 431 (SEC-5)", async () => {
    const path = (bytes: number) => `/v1/models?${"a".repeat(bytes - 11)}`;
    const ask = (bytes: number) =>
      exchange(`GET ${path(bytes)} HTTP/1.1\r\n${host}\r\n${key()}\r\nConnection: close\r\n\r\n`);
    expect((await ask(8 * 1024)).status).toBe(200);
    expectRawError(await ask(8 * 1024 + 1), 431, "request_headers_too_large");
  });

  it("is answered with 404 for an unknown path, even with other faults and without a check of the key", async () => {
    const answer = await exchange(["GET /nothing HTTP/1.1", host, "Connection: close", "", ""].join("\r\n"));
    expectRawError(answer, 404, "unknown_url");
  });

  it("is answered with 400 for an unknown expectation", async () => {
    expectRawError(
      await exchange(post(host, key(), "Content-Type: application/json", "Expect: miracles")),
      400,
      "invalid_value",
    );
  });

  it("with Expect: 100-continue is answered with 100 Continue (CONN-6)", async () => {
    const connection = await connectRaw(service.http);
    const whole = postText(chatPath, `Bearer ${service.key}`, chatBody, ["Expect: 100-continue", "Connection: close"]);
    connection.send(whole.slice(0, -chatBody.length));
    await connection.until("HTTP/1.1 100 Continue\r\n\r\n");
    connection.send(chatBody);
    expect(await connection.closed()).toContain("HTTP/1.1 200 OK");
  });

  it("is not answered with 100 Continue for a bad key, a large body or a wrong type (CONN-6)", async () => {
    const expecting = (changes: { key?: string; length?: number; type?: string }) =>
      [
        `POST ${chatPath} HTTP/1.1`,
        host,
        `Authorization: Bearer ${changes.key ?? service.key}`,
        `Content-Type: ${changes.type ?? "application/json"}`,
        `Content-Length: ${changes.length ?? 10}`,
        "Expect: 100-continue",
        "",
        "",
      ].join("\r\n");
    const refusals = [
      [expecting({ key: "bad" }), 401],
      [expecting({ length: 2 ** 30 }), 413],
      [expecting({ type: "text/plain" }), 415],
    ] as const;
    for (const [text, status] of refusals) {
      const { raw } = await exchange(text);
      expect(raw).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    }
  });

  it("may announce a body in chunks, which may be split anywhere (CONN-6)", async () => {
    const pieces = Array.from(chatBody, (character) => `1\r\n${character}\r\n`);
    const head = [
      `POST ${chatPath} HTTP/1.1`,
      host,
      key(),
      "Content-Type: application/json",
      "Transfer-Encoding: chunked",
      "Connection: close",
      "",
      "",
    ];
    expect((await exchange(head.join("\r\n"), ...pieces, "0\r\n\r\n")).status).toBe(200);
  });

  it("is answered with 400 if a chunk of its body has an invalid size (SEC-4)", async () => {
    const head = [
      `POST ${chatPath} HTTP/1.1`,
      host,
      key(),
      "Content-Type: application/json",
      "Transfer-Encoding: chunked",
      "",
      "",
    ];
    expectRawError(await exchange(head.join("\r\n"), "zz\r\n{}\r\n"), 400, "invalid_value");
  });

  it("is answered with a keep-alive of 65 s, and the connection serves the next request (CONN-1)", async () => {
    const connection = await connectRaw(service.http);
    connection.send(get(host, key()));
    await connection.until('"data"');
    expect(parseAnswer(connection.received).headers["keep-alive"]).toBe("timeout=65");
    connection.send(get(host, key(), "Connection: close"));
    expect((await connection.closed()).split("HTTP/1.1 200 OK")).toHaveLength(3);
  });
});

describe("the size of a REST body", () => {
  const limit = 64 * 1024;

  beforeAll(async () => {
    service = await startService({ config: { limits: { body_bytes_max: "64KiB", bodies_bytes_max: "256KiB" } } });
    api = createApi(service);
  });
  afterAll(() => service.close());
  afterEach(() => expectHealthy());

  const padded = (bytes: number) => chatBody + " ".repeat(bytes - chatBody.length);

  it("a body of the maximum size is accepted and one byte more is 413 (GEN-9, ERR-16, SEC-5)", async () => {
    expect((await api.send("POST", chatPath, padded(limit))).status).toBe(200);
    expectError(await api.send("POST", chatPath, padded(limit + 1)), 413, "request_too_large");
  });

  it("an announced size above the limit is rejected before the body is sent, and a bad key before that (SEC-5, CONN-5)", async () => {
    const head = (credential: string) =>
      postText(chatPath, credential, "").replace("Content-Length: 0", `Content-Length: ${2 ** 30}`);
    const early = await connectRaw(service.http);
    early.send(head(`Bearer ${service.key}`));
    expectRawError(parseAnswer(await early.until("request_too_large")), 413, "request_too_large");
    early.destroy();
    const bad = await connectRaw(service.http);
    bad.send(head("Bearer bad"));
    expectRawError(parseAnswer(await bad.until("invalid_api_key")), 401, "invalid_api_key");
    bad.destroy();
  });

  it("a body without an announced size is counted as it arrives (GEN-9)", async () => {
    const head = postText(chatPath, `Bearer ${service.key}`, "").replace(
      "Content-Length: 0",
      "Transfer-Encoding: chunked",
    );
    const chunk = `1000\r\n${" ".repeat(0x1000)}\r\n`;
    expectRawError(await exchange(head, chunk.repeat(17)), 413, "request_too_large");
  });

  it("a client that sends its whole body before it reads receives the rejection (CONN-5)", async () => {
    const connection = await connectRaw(service.http);
    connection.pause();
    connection.send(postText(chatPath, `Bearer ${service.key}`, " ".repeat(20 * 1024 * 1024)));
    await eventually(() => connection.socket.writableLength === 0, "all is sent");
    connection.resume();
    expectRawError(parseAnswer(await connection.closed()), 413, "request_too_large");
  });

  it("a body that exceeds the budget of all bodies is 503, and is accepted when bytes were released (ERR-24)", async () => {
    const holders = await Promise.all(Array.from({ length: 4 }, () => connectRaw(service.http)));
    // One account may hold half of the budget.
    for (const [i, holder] of holders.entries()) {
      const credential = `Bearer ${i % 2 === 0 ? service.key : service.adminToken}`;
      holder.send(postText(chatPath, credential, padded(limit)).slice(0, -1));
    }
    await eventually(async () => (await api.chat()).status === 503, "the budget is used");
    const reply = await api.chat();
    expectError(reply, 503, "server_is_overloaded");
    expect(reply.headers.get("retry-after")).toBe("1");
    for (const holder of holders) holder.destroy();
    await eventually(async () => (await api.chat()).status === 200, "there is room again");
  });
});

describe("slow clients", () => {
  beforeAll(async () => {
    service = await startService({
      config: {
        limits: {
          headers_timeout: "150ms",
          request_timeout: "600ms",
          body_rate_grace: "200ms",
          keep_alive_timeout: "2s",
        },
        models: [
          { id: "test-chat", engine: "scripted", scripted: { text: "Hello." } },
          { id: "slow", engine: "scripted", scripted: { text: "a b", first_token_delay_ms: 1_000 } },
        ],
      },
    });
    api = createApi(service);
  });
  afterAll(() => service.close());
  afterEach(() => expectHealthy());

  const slowly = (text: string) => postText(chatPath, `Bearer ${service.key}`, text);

  it("get 408 if their head does not end in time, while other clients are served (SEC-6, ERR-14)", async () => {
    const connection = await connectRaw(service.http);
    connection.send(`GET /v1/models HTTP/1.1\r\nHost: localhost\r\n`);
    const beside = Promise.all(Array.from({ length: 20 }, () => api.chat()));
    expectRawError(parseAnswer(await connection.closed()), 408, "request_timeout");
    expect((await beside).every(({ status }) => status === 200)).toBe(true);
  });

  it("get 408 if their body arrives too slowly, while other clients are served (SEC-6, ERR-14)", async () => {
    const connection = await connectRaw(service.http);
    // The rest of the body would take minutes to arrive.
    connection.send(slowly(chatBody + " ".repeat(10_000)).slice(0, -10_000));
    const drops = setInterval(() => connection.send(" "), 20);
    const beside = Promise.all(Array.from({ length: 20 }, () => api.chat()));
    await connection.until("request_timeout");
    // Bytes that arrive after the connection is closed would reset it, and an answer that is not read yet would be lost.
    clearInterval(drops);
    expectRawError(parseAnswer(await connection.closed()), 408, "request_timeout");
    expect((await beside).every(({ status }) => status === 200)).toBe(true);
  });

  it("get 408 if their body is fast enough but never ends (SEC-6, ERR-14)", async () => {
    const connection = await connectRaw(service.http);
    connection.send(slowly(" ".repeat(10_000_000)).slice(0, 1_000));
    const stream = setInterval(() => connection.send(" ".repeat(2_000)), 20);
    expectRawError(parseAnswer(await connection.until("request_timeout")), 408, "request_timeout");
    clearInterval(stream);
    connection.destroy();
  });

  it("get a complete answer, and nothing before it, if it takes longer than the header timeout (CONN-9, CONN-3)", async () => {
    const connection = await connectRaw(service.http);
    const body = JSON.stringify({ model: "slow", messages: [user] });
    connection.send(postText(chatPath, `Bearer ${service.key}`, body, ["Connection: close"]));
    const answer = parseAnswer(await connection.closed());
    expect(answer.status).toBe(200);
    expect(answer.body.startsWith('{"id"')).toBe(true);
  });

  it("keep an idle connection longer than the limit on slow heads (CONN-1)", async () => {
    const connection = await connectRaw(service.http);
    const ask = `GET /health HTTP/1.1\r\nHost: localhost\r\n`;
    connection.send(`${ask}\r\n`);
    await connection.until('"ok"');
    const body = JSON.stringify({ model: "slow", messages: [user] });
    // One slow answer is used as a timer: it takes longer than every limit on receiving.
    expect((await api.send("POST", chatPath, body)).status).toBe(200);
    connection.send(`${ask}Connection: close\r\n\r\n`);
    expect((await connection.closed()).split("HTTP/1.1 200 OK")).toHaveLength(3);
  });

  it("are accepted and served while an engine works (CONN-4)", async () => {
    const work = Promise.all(Array.from({ length: 4 }, () => api.chat({ model: "slow" })));
    const startedAtMs = performance.now();
    expect((await api.get("/v1/models")).status).toBe(200);
    expect(performance.now() - startedAtMs).toBeLessThan(900);
    expect((await work).every(({ status }) => status === 200)).toBe(true);
  });
});

describe("allowed hosts", () => {
  beforeAll(async () => {
    service = await startService({ config: { server: { allowed_hosts: ["api.example", "localhost"] } } });
    api = createApi(service);
  });
  afterAll(() => service.close());

  it("reject a Host that is not in the list with 400 (SEC-4)", async () => {
    const ask = (name: string) => exchange(`GET /health HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`);
    expect((await ask("api.example")).status).toBe(200);
    expect((await ask("API.example:8080")).status).toBe(200);
    expectRawError(await ask("evil.example"), 400, "invalid_value");
  });
});
