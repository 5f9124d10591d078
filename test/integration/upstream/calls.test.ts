import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { UpstreamOutcome } from "../../../src/domain/engine/upstream.js";
import {
  chatRequest,
  completionRequest,
  never,
  runEvents,
  textOf,
  type upstreamSettings,
} from "../../support/upstream/engine-calls.js";
import { answerBytes, type RawAnswer, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import {
  eventsText,
  recordedBytes,
  recordedFolder,
  recordedGenerations,
} from "../../support/upstream/recorded-answers.js";
import { done, finish, load, start, text, whole } from "../../support/upstream/test-upstream.js";

const ok: RawAnswer = (socket) => void socket.end(whole);

/** A streamed answer in a chunked body, so that the connection stays open. */
function chunked(...parts: readonly string[]): string {
  const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
  const chunks = parts.map((part) => `${Buffer.byteLength(part).toString(16)}\r\n${part}\r\n`);
  return `${head}${chunks.join("")}0\r\n\r\n`;
}

describe("recorded answers over a connection", () => {
  it.each(Object.keys(recordedGenerations))(
    "%s gives the events of its golden file, sent in one piece and byte by byte",
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

  it("to Azure carry the key as api-key, to Anthropic as x-api-key, and to neither as a bearer token", async () => {
    const upstream = await start(ok);
    await runEvents(await load(upstream, { kind: "azure", keys: ["k"] }), chatRequest());
    expect(upstream.requests.at(-1)?.headers).toMatchObject({ "api-key": "k" });
    expect(upstream.requests.at(-1)?.headers).not.toHaveProperty("authorization");
    await runEvents(await load(upstream, { kind: "anthropic", keys: ["k"] }), chatRequest());
    expect(upstream.requests.at(-1)?.headers).toMatchObject({ "x-api-key": "k", "anthropic-version": "2023-06-01" });
    expect(upstream.requests.at(-1)?.headers).not.toHaveProperty("authorization");
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
      // The server resets a connection at its second request.
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

  it("store the fingerprint of an answer, so that the next answer has it from the beginning", async () => {
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
      unauthorized: answerBytes("403 Forbidden", "text/plain", "no"),
      rate_limited: answerBytes("429 Too Many Requests", "text/plain", "no"),
      upstream_error: answerBytes("502 Bad Gateway", "text/plain", "no"),
      timeout: answerBytes("504 Gateway Timeout", "text/plain", "no"),
    };
    let answer = "";
    const upstream = await start((socket) => void socket.end(answer));
    const seen: unknown[] = [];
    const model = await load(upstream, {}, { onOutcome: (...facts) => seen.push(facts) });
    for (const [outcome, bytes] of Object.entries(answers)) {
      answer = bytes;
      await runEvents(model, chatRequest());
      expect(seen.at(-1)).toEqual([{ deployment: "up/smollm2", upstream: "up" }, outcome, expect.any(Number)]);
    }
    expect(seen).toHaveLength(Object.keys(answers).length);
  });
});
