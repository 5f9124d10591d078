import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  chatOf,
  createChatCompletion,
  createCompletion,
  createEmbeddings,
  rerank,
  streamChatCompletion,
  streamCompletion,
} from "../../conformance/rpc/chat-requests.js";
import { openWay, type RpcWay, wayNames } from "../../conformance/rpc/ways.js";
import { ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { answerBytes, RawUpstream } from "../../support/upstream/raw-upstream.js";
import { whole } from "../../support/upstream/test-upstream.js";

/** Headers that a client sends in addition to those of the API. */
const clientHeaders = { "x-client-secret": "secret-of-the-client", cookie: "a=secret-of-the-client" };
const stream = { stream: true, stream_options: { include_usage: true } };
const message = { role: "user", content: "Say something." };
/** Headers that the service sends to upstreams. */
const headerNames = "accept authorization connection content-length content-type host user-agent x-request-id".split(
  " ",
);

let upstream: RawUpstream;
let service: RunningService;
let rest: ServiceClient;
let ways: readonly RpcWay[];

beforeAll(async () => {
  upstream = await RawUpstream.start((socket, { path }) => {
    const answers: Readonly<Record<string, object>> = {
      "/v1/models": { data: [{ id: "m" }] },
      "/v1/embeddings": { data: [{ index: 0, embedding: [0.5] }], usage: { prompt_tokens: 1 } },
      "/v1/rerank": { results: [{ index: 0, relevance_score: 0.5 }] },
    };
    const answer = answers[path];
    if (answer === undefined) socket.end(whole);
    else socket.end(answerBytes("200 OK", "application/json", JSON.stringify(answer), ["connection: close"]));
  });
  const at = (kind: string) => ({ url: upstream.url, kind, discover: "off" });
  const model = { engine: "openai", model: "m" };
  service = await startService({
    config: {
      upstreams: { openai: at("openai"), vllm: at("vllm"), generic: at("generic"), open: { url: upstream.url } },
      models: [
        ...["openai", "vllm", "generic", "open"].map((id) => ({ id, upstream: id, ...model })),
        { id: "inputs", deployments: [{ ...model, upstream: "vllm", capabilities: ["embeddings", "rerank"] }] },
      ],
    },
    env: { UIS_UPSTREAM_GENERIC_KEY: "key-of-the-upstream" },
  });
  rest = new ServiceClient(service.api, service.key, clientHeaders);
  ways = wayNames.map((name) => openWay(name, service));
});
afterAll(async () => {
  for (const way of ways) way.close();
  await service.close();
  await upstream.close();
});
beforeEach(() => {
  upstream.requests.length = 0;
});

const sentBodies = (): unknown[] =>
  upstream.requests.filter(({ method }) => method === "POST").map(({ body }) => JSON.parse(body) as unknown);

/** Sends the same chat by REST and all RPC protocols, unary and streamed. */
async function sendChats(
  model: string,
  given: { readonly rest?: object; readonly rpc?: object } = {},
): Promise<number> {
  for (const isStream of [false, true]) {
    const { status, text } = await rest.chat(model, { messages: [message], stream: isStream, ...given.rest });
    expect(status, text).toBe(200);
  }
  for (const way of ways) {
    for (const method of [createChatCompletion, streamChatCompletion]) {
      const { failure } = await way.call(method, chatOf(model, given.rpc), { headers: clientHeaders });
      expect(failure).toBeNull();
    }
  }
  return 2 + 2 * ways.length;
}

describe("requests to an upstream", () => {
  it.each(["openai", "vllm", "generic", "open"])(
    "of kind %s have no field that the client did not send, on every protocol",
    async (kind) => {
      const count = await sendChats(kind);
      const bodies = sentBodies();
      expect(bodies).toHaveLength(count);
      const { stream_options: _, ...expected } = { model: "m", messages: [message], ...stream };
      for (const body of bodies) {
        const { stream_options: options, ...others } = body as Record<string, unknown>;
        expect(others).toEqual(expected);
        // Some kinds also get options for usage in every chunk, and for chunks without padding.
        expect(options).toMatchObject({ include_usage: true });
        expect(Object.keys(options as object).every((name) => optionNames.has(name))).toBe(true);
      }
    },
  );

  it("of other operations also have no field that the client did not send", async () => {
    const completion = { model: "generic", prompt: "Once" };
    expect((await rest.post("/v1/completions", completion)).status).toBe(200);
    expect((await rest.post("/v1/completions", { ...completion, stream: true })).status).toBe(200);
    expect((await rest.post("/v1/embeddings", { model: "inputs", input: "a" })).status).toBe(200);
    expect((await rest.post("/v1/rerank", { model: "inputs", query: "a", documents: ["b"] })).status).toBe(200);
    for (const way of ways) {
      const params = { model: "generic", prompt: ["Once"] };
      for (const method of [createCompletion, streamCompletion]) {
        expect((await way.call(method, { params })).failure).toBeNull();
      }
      expect((await way.call(createEmbeddings, { params: { model: "inputs", input: ["a"] } })).failure).toBeNull();
      expect(
        (await way.call(rerank, { params: { model: "inputs", query: "a", documents: ["b"] } })).failure,
      ).toBeNull();
    }
    const forms = [
      { model: "m", prompt: "Once", ...stream },
      { model: "m", input: ["a"], encoding_format: "base64" },
      // The service adds the texts of documents itself.
      { model: "m", query: "a", documents: ["b"], return_documents: false },
    ];
    for (const body of sentBodies()) expect(forms).toContainEqual(body);
  });

  it.each([
    ["openai", "max_completion_tokens"],
    ["vllm", "max_tokens"],
    ["generic", "max_completion_tokens"],
  ])("of kind %s have the limit as %s, prompt_cache_key and sampling options unchanged", async (kind, limit) => {
    const values = { temperature: 0, top_p: 0.25, seed: 7, prompt_cache_key: "cache-7", user: "u-7" };
    const count = await sendChats(kind, {
      rest: { ...values, max_completion_tokens: 12 },
      rpc: { temperature: 0, topP: 0.25, seed: 7n, promptCacheKey: "cache-7", user: "u-7", maxCompletionTokens: 12 },
    });
    const bodies = sentBodies();
    expect(bodies).toHaveLength(count);
    for (const body of bodies) expect(body).toMatchObject({ ...values, [limit]: 12 });
    const limits = ["max_tokens", "max_completion_tokens"].filter((name) => name !== limit);
    for (const body of bodies) for (const name of limits) expect(body).not.toHaveProperty(name);
  });

  it.each([
    ["generic", "Bearer key-of-the-upstream"],
    ["open", undefined],
  ])(
    "named %s have the upstream's own credential and none of the client's headers, on every protocol (SEC-18)",
    async (kind, credential) => {
      const count = await sendChats(kind);
      const posts = upstream.requests.filter(({ method }) => method === "POST");
      expect(posts).toHaveLength(count);
      for (const { headers, path } of posts) {
        expect(headers["authorization"]).toBe(credential);
        expect(Object.keys(headers).filter((name) => !headerNames.includes(name))).toEqual([]);
        expect(JSON.stringify([headers, path])).not.toContain(service.key);
        expect(JSON.stringify([headers, path])).not.toContain("secret-of-the-client");
      }
    },
  );
});

const optionNames = new Set(["include_usage", "continuous_usage_stats", "include_obfuscation"]);
