import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { EngineError, type GenEvent, type LoadedModel } from "../../../src/domain/engine/engine.js";
import type { UpstreamOutcome } from "../../../src/engines/openai/openai-model.js";
import { eventually } from "../../support/eventually.js";
import {
  chatRequest,
  completionRequest,
  loadUpstreamModel,
  never,
  runEvents,
  textOf,
  upstreamSettings,
} from "../../support/upstream/engine-calls.js";
import { answerBytes, type RawAnswer, RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import {
  eventsText,
  recordedBytes,
  recordedFolder,
  recordedGenerations,
} from "../../support/upstream/recorded-answers.js";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function start(answer: RawAnswer): Promise<RawUpstream> {
  const upstream = await RawUpstream.start(answer);
  closing.push(() => upstream.close());
  return upstream;
}

/** A model on the server; azure has no list of models. */
async function load(
  upstream: RawUpstream,
  settings: Parameters<typeof upstreamSettings>[1] = {},
  ...others: [Parameters<typeof loadUpstreamModel>[1]?, Parameters<typeof loadUpstreamModel>[2]?]
): Promise<LoadedModel> {
  const model = await loadUpstreamModel(upstreamSettings(upstream.url, { kind: "azure", ...settings }), ...others);
  closing.push(() => model.unload(0));
  return model;
}

const text = (content: string) => sse({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const finish = sse({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
const done = sse("[DONE]");
const whole = `${streamHead}${text("Hello")}${finish}${done}`;
const ok: RawAnswer = (socket) => void socket.end(whole);

/** A streamed answer in a chunked body, so that the connection stays. */
function chunked(...parts: readonly string[]): string {
  const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
  const chunks = parts.map((part) => `${Buffer.byteLength(part).toString(16)}\r\n${part}\r\n`);
  return `${head}${chunks.join("")}0\r\n\r\n`;
}

describe("recorded answers over a connection", () => {
  it.each(Object.keys(recordedGenerations))(
    "%s gives the events of its golden file, in one piece and in bytes",
    async (name) => {
      const bytes = recordedBytes(name);
      let isSplit = false;
      const upstream = await start((socket) => {
        if (isSplit) for (const byte of bytes) socket.write(Buffer.from([byte]));
        else socket.write(bytes);
        socket.end();
      });
      const request = recordedGenerations[name] ?? chatRequest();
      const golden = readFileSync(join(recordedFolder, `${name}.events.json`), "utf8");
      for (isSplit of [false, true]) {
        const model = await load(upstream);
        const { events, error } = await runEvents(model, request);
        expect(error).toBeNull();
        expect(eventsText(events)).toBe(golden);
      }
    },
  );
});

describe("requests to an upstream server", () => {
  it("carry the key, the headers of the configuration and our request id, and nothing of the client's", async () => {
    const upstream = await start(ok);
    const model = await load(upstream, { kind: "openai", keys: ["k-1"], headers: { "X-Team": "a" } });
    await runEvents(model, chatRequest({ requestId: "req_7" }));
    const sent = upstream.requests.find(({ method }) => method === "POST");
    expect(sent).toMatchObject({
      path: "/v1/chat/completions",
      headers: {
        authorization: "Bearer k-1",
        "content-type": "application/json",
        "x-team": "a",
        "x-request-id": "req_7",
      },
    });
    expect(JSON.parse(sent?.body ?? "")).toMatchObject({ model: "smollm2", stream: true });
  });

  it("go to the path of their operation and kind", async () => {
    const upstream = await start(ok);
    const root = upstream.url.replace("/v1", "");
    const paths = async (changes: Parameters<typeof upstreamSettings>[1]) => {
      upstream.requests.length = 0;
      const model = await load(upstream, changes);
      await runEvents(model, chatRequest());
      await runEvents(model, completionRequest());
      await model.embed({ inputs: ["a"] }, never).catch(() => {});
      return upstream.requests.filter(({ method }) => method === "POST").map(({ path }) => path);
    };
    expect(await paths({ kind: "vllm" })).toEqual(["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]);
    expect(await paths({ kind: "generic", url: root })).toEqual([
      "/v1/chat/completions",
      "/v1/completions",
      "/v1/embeddings",
    ]);
    expect(await paths({ kind: "generic", url: `${root}/api/v2/` })).toEqual([
      "/api/v2/chat/completions",
      "/api/v2/completions",
      "/api/v2/embeddings",
    ]);
    expect(await paths({ kind: "azure", url: root })).toEqual([
      "/openai/v1/chat/completions",
      "/openai/v1/completions",
      "/openai/v1/embeddings",
    ]);
    expect(await paths({ kind: "azure", url: root, apiVersion: "2024-10-21" })).toEqual([
      "/openai/deployments/smollm2/chat/completions?api-version=2024-10-21",
      "/openai/deployments/smollm2/completions?api-version=2024-10-21",
      "/openai/deployments/smollm2/embeddings?api-version=2024-10-21",
    ]);
  });

  it("to Azure carry the key as api-key, to Anthropic in both headers", async () => {
    const upstream = await start(ok);
    await runEvents(await load(upstream, { kind: "azure", keys: ["k"] }), chatRequest());
    expect(upstream.requests.at(-1)?.headers).toMatchObject({ "api-key": "k" });
    expect(upstream.requests.at(-1)?.headers).not.toHaveProperty("authorization");
    await runEvents(await load(upstream, { kind: "anthropic", keys: ["k"] }), chatRequest());
    expect(upstream.requests.at(-1)?.headers).toMatchObject({ authorization: "Bearer k", "x-api-key": "k" });
  });

  it("reuse a connection, also after [DONE] came before the end of the body", async () => {
    const upstream = await start((socket) => {
      socket.write(chunked(text("Hello"), finish, done));
    });
    const model = await load(upstream);
    for (let i = 0; i < 5; i++) expect(textOf((await runEvents(model, chatRequest())).events)).toBe("Hello");
    // undici uses a connection again only after a turn of the event loop.
    expect(upstream.sockets.size).toBeLessThanOrEqual(2);
  });

  it("are sent again when the server closed the idle connection at the same moment", async () => {
    const connections = new Set<object>();
    const upstream = await start((socket) => {
      // The second request on a connection meets its end.
      if (connections.has(socket)) socket.resetAndDestroy();
      else socket.write(chunked(text("Hello"), finish, done));
      connections.add(socket);
    });
    const model = await load(upstream);
    for (let i = 0; i < 6; i++) expect((await runEvents(model, chatRequest())).error).toBeNull();
    expect(upstream.requests.length).toBeGreaterThan(6);
  });

  it("try another key when one is rejected or limited", async () => {
    const upstream = await start((socket, { headers }) => {
      const status = { "Bearer bad": "401 Unauthorized", "Bearer slow": "429 Too Many Requests" }[
        headers["authorization"] ?? ""
      ];
      socket.end(status === undefined ? whole : answerBytes(status, "text/plain", "no", ["retry-after: 60"]));
    });
    const outcomes: UpstreamOutcome[] = [];
    const model = await load(
      upstream,
      { kind: "openai", keys: ["bad", "slow", "good"] },
      {},
      { onOutcome: (_, outcome) => outcomes.push(outcome) },
    );
    for (let i = 0; i < 20; i++) {
      expect((await runEvents(model, chatRequest({ cacheKey: `tenant ${i}` }))).error).toBeNull();
    }
    const used = upstream.requests
      .filter(({ method }) => method === "POST")
      .map(({ headers }) => headers["authorization"]);
    expect(used.filter((key) => key !== "Bearer good").length).toBeLessThanOrEqual(2);
    expect(outcomes.filter((outcome) => outcome === "success")).toHaveLength(20);
    expect(outcomes.every((outcome) => ["success", "unauthorized", "rate_limited"].includes(outcome))).toBe(true);
  });

  it("learn the fingerprint, so that the next answer has it from the beginning", async () => {
    const late = sse({ choices: [], system_fingerprint: "fp_late" });
    const upstream = await start((socket) => void socket.end(whole.replace(done, late + done)));
    const model = await load(upstream);
    expect(model.fingerprint).toBe("");
    const first = await runEvents(model, chatRequest());
    expect(first.events.filter(({ type }) => type === "accepted")).toMatchObject([{}, { fingerprint: "late" }]);
    expect(model.fingerprint).toBe("late");
    const second = await runEvents(model, chatRequest());
    expect(second.events.filter(({ type }) => type === "accepted")).toHaveLength(1);
  });

  it("report their outcome and the time of the first byte once per attempt", async () => {
    const answers: Record<string, string> = {
      success: whole,
      invalid_response: `${streamHead}data: x\n\n`,
      unauthorized: answerBytes("403 Forbidden", "text/plain", ""),
      rate_limited: answerBytes("429 Too Many Requests", "text/plain", ""),
      upstream_error: answerBytes("502 Bad Gateway", "text/plain", ""),
      timeout: answerBytes("504 Gateway Timeout", "text/plain", ""),
    };
    let answer = "";
    const upstream = await start((socket) => void socket.end(answer));
    const seen: unknown[] = [];
    const model = await load(upstream, {}, {}, { onOutcome: (...facts) => seen.push(facts) });
    for (const [outcome, bytes] of Object.entries(answers)) {
      answer = bytes;
      await runEvents(model, chatRequest());
      expect(seen.at(-1)).toMatchObject([{ upstream: "up", model: "smollm2" }, outcome, {}]);
    }
    expect(seen).toHaveLength(Object.keys(answers).length);
  });
});

describe("a stream from an upstream server", () => {
  /** An answer that goes on until the connection closes. */
  const endless: RawAnswer = (socket) => {
    socket.write(streamHead);
    const timer = setInterval(() => socket.write(text("word ")), 2);
    socket.on("close", () => clearInterval(timer));
  };

  it.each(["each", "joined"] as const)(
    "is closed at once when the request is aborted, also for a caller with deltas %s (REL-2)",
    async (deltas) => {
      const upstream = await start(endless);
      const model = await load(upstream);
      const abort = new AbortController();
      const running = runEvents(model, chatRequest({ deltas }), abort.signal);
      await eventually(() => upstream.requests.length === 1, "the request");
      await eventually(() => [...upstream.sockets].some(({ bytesWritten }) => bytesWritten > 1_000), "some text");
      const abortedAtMs = performance.now();
      abort.abort();
      const { error } = await running;
      expect(error).toMatchObject({ code: "aborted" });
      expect(error?.usage?.outTokens).toBeGreaterThan(0);
      expect(error?.usage?.promptTokens).toBeGreaterThan(0);
      await eventually(() => upstream.isIdle, "the closed connection");
      expect(performance.now() - abortedAtMs).toBeLessThan(1_000);
    },
  );

  it.each([
    ["before the connection", "connect"],
    ["before the answer", "answer"],
  ])("%s: an abort ends the request at once (REL-2)", async (_, stage) => {
    const upstream = await start(() => {});
    // A server that never answers the TLS handshake holds the connection in the making.
    const url = stage === "connect" ? upstream.url.replace("http:", "https:") : upstream.url;
    const model = await load(upstream, { url });
    const abort = new AbortController();
    const running = runEvents(model, chatRequest(), abort.signal);
    await eventually(() => upstream.sockets.size === 1, "the connection");
    if (stage === "answer") await eventually(() => upstream.requests.length === 1, "the request");
    abort.abort();
    expect((await running).error).toMatchObject({ code: "aborted", usage: { outTokens: 0 } });
    expect(model.stats().slotsBusy).toBe(0);
    if (stage === "answer") await eventually(() => upstream.isIdle, "the closed connection");
  });

  it("is not read while the reader has not taken an event: the server has to wait", async () => {
    const block = text("x".repeat(10_000));
    let written = 0;
    const upstream = await start((socket) => {
      socket.write(streamHead);
      const more = (): void => {
        for (let hasRoom = true; hasRoom && written < 2_000; written += 1) hasRoom = socket.write(block);
        if (written < 2_000) socket.once("drain", more);
        else socket.end(finish + done);
      };
      more();
    });
    const model = await load(upstream, { idleMs: 300 });
    let release = (): void => {};
    let taken = 0;
    const running = model.generate(chatRequest(), never, (event) => {
      if (event.type !== "text") return undefined;
      taken += 1;
      if (taken !== 3) return undefined;
      return new Promise<void>((resolve) => {
        release = resolve;
      });
    });
    await eventually(() => taken === 3, "three events");
    let before = -1;
    // The buffers of both sockets fill, then nothing more is written.
    await eventually(async () => {
      const isSame = before === written;
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return isSame && before === written;
    }, "a server that waits");
    expect(written).toBeLessThan(1_500);
    expect(taken).toBe(3);
    release();
    await running;
    expect(taken).toBe(2_000);
  });

  it("a deadline does not run while the reader is slow, and runs again afterwards", async () => {
    const upstream = await start((socket) => void socket.write(streamHead + text("a") + text("b")));
    const model = await load(upstream, { idleMs: 100 });
    const seen: GenEvent[] = [];
    const running = model.generate(chatRequest(), never, (event) => {
      seen.push(event);
      return event.type === "text" && event.text === "a"
        ? new Promise((resolve) => setTimeout(resolve, 400))
        : undefined;
    });
    await expect(running).rejects.toMatchObject({ code: "timeout", usage: { outTokens: 2 } });
    expect(textOf(seen)).toBe("ab");
  });

  it("an error of the connection comes after the events that came before it", async () => {
    const upstream = await start((socket) => {
      socket.write(streamHead + text("a") + text("b"), () => socket.resetAndDestroy());
    });
    const model = await load(upstream);
    const seen: GenEvent[] = [];
    const running = model.generate(chatRequest(), never, async (event) => {
      await new Promise((resolve) => setImmediate(resolve));
      seen.push(event);
    });
    await expect(running).rejects.toMatchObject({ code: "upstream_error" });
    expect(textOf(seen)).toBe("ab");
  });

  it("rejects with what the reader throws or rejects with, and closes the connection", async () => {
    const upstream = await start(endless);
    const model = await load(upstream);
    const fails: ((event: GenEvent) => Promise<void> | undefined)[] = [
      () => {
        throw new Error("the reader failed");
      },
      () => Promise.reject(new Error("the reader failed")),
    ];
    for (const emit of fails) {
      await expect(model.generate(chatRequest(), never, emit)).rejects.toThrow("the reader failed");
      await eventually(() => upstream.isIdle, "the closed connection");
      expect(model.stats().slotsBusy).toBe(0);
    }
  });
});

describe("embeddings of an upstream server", () => {
  const json = (body: unknown) => answerBytes("200 OK", "application/json", JSON.stringify(body));

  it.each(["llama-server/emb-base64", "llama-server/emb-batch", "llama-server/emb-batch-base64"])(
    "recorded: %s",
    async (name) => {
      const upstream = await start((socket) => void socket.end(recordedBytes(name)));
      const model = await load(upstream);
      const inputs = name.includes("batch") ? ["a", "b"] : ["hello world"];
      const { vectors, promptTokens } = await model.embed({ inputs }, never);
      expect(vectors).toHaveLength(inputs.length);
      for (const vector of vectors) {
        expect(vector).toHaveLength(384);
        expect(Math.hypot(...vector)).toBeCloseTo(1, 3);
      }
      expect(promptTokens).toBeGreaterThan(0);
      expect(JSON.parse(upstream.requests[0]?.body ?? "")).toEqual({
        model: "smollm2",
        input: inputs,
        encoding_format: "base64",
      });
    },
  );

  it("puts the vectors in the order of their index, and takes lists of numbers", async () => {
    const upstream = await start(
      (socket) =>
        void socket.end(
          json({
            data: [
              { index: 1, embedding: [3, 4] },
              { index: 0, embedding: [1, 2] },
            ],
            usage: { prompt_tokens: 9 },
          }),
        ),
    );
    const model = await load(upstream);
    expect(await model.embed({ inputs: ["a", "b"] }, never)).toEqual({
      vectors: [Float32Array.of(1, 2), Float32Array.of(3, 4)],
      promptTokens: 9,
    });
  });

  it.each([
    ["too few vectors", { data: [{ index: 0, embedding: [1] }] }],
    [
      "another index",
      {
        data: [
          { index: 0, embedding: [1] },
          { index: 5, embedding: [1] },
        ],
      },
    ],
    ["vectors of different lengths", { data: [{ embedding: [1] }, { embedding: [1, 2] }] }],
    ["numbers that are not finite", { data: [{ embedding: "AADAfw==" }, { embedding: "AADAfw==" }] }],
    ["texts", { data: [{ embedding: ["x"] }, { embedding: [null] }] }],
    ["half a number", { data: [{ embedding: "AAA=" }, { embedding: "AAA=" }] }],
    ["an error with 200", { error: { message: "boom" } }],
    ["no JSON", "<html>"],
  ])("an answer with %s is upstream_error", async (_, body) => {
    const upstream = await start((socket) => void socket.end(json(body)));
    const model = await load(upstream);
    await expect(model.embed({ inputs: ["a", "b"] }, never)).rejects.toMatchObject({ code: "upstream_error" });
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("names the longest input when the server says that one is too long", async () => {
    const upstream = await start((socket) => void socket.end(recordedBytes("llama-server/emb-too-long")));
    const model = await load(upstream);
    const inputs = ["short", "much longer than the others", "mid size"];
    await expect(model.embed({ inputs }, never)).rejects.toMatchObject({ code: "context_overflow", param: "input[1]" });
  });

  it("vectors that the server did not shorten are an error about 'dimensions'", async () => {
    const upstream = await start((socket) => void socket.end(json({ data: [{ embedding: [1, 2, 3] }] })));
    const model = await load(upstream);
    await expect(model.embed({ inputs: ["a"], dimensions: 2 }, never)).rejects.toMatchObject({
      code: "unsupported",
      param: "dimensions",
    });
  });

  it("an abort closes the connection (REL-2)", async () => {
    const upstream = await start(() => {});
    const model = await load(upstream);
    const abort = new AbortController();
    const running = model.embed({ inputs: ["a"] }, abort.signal);
    await eventually(() => upstream.requests.length === 1, "the request");
    abort.abort();
    await expect(running).rejects.toMatchObject({ code: "aborted" });
    await eventually(() => upstream.isIdle, "the closed connection");
    await expect(running).rejects.toBeInstanceOf(EngineError);
  });
});
