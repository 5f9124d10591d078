import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Usage, UsageSchema } from "../../../gen/unified/inference/v1/usage_pb.js";
import { type RunningService, startService } from "../../support/start-service.js";
import {
  chatOf,
  countTokens,
  createChatCompletion,
  createEmbeddings,
  rerank,
  streamChatCompletion,
} from "./chat-requests.js";
import { openWay, type RpcWay, wayNames } from "./ways.js";

const text = "One two three four five six, seven eight.";
const fields = { maxCompletionTokens: 6, seed: 1n, n: 2 };

/** The parts of an answer that must be equal over every protocol. */
interface Answer {
  readonly contents: readonly string[];
  readonly finishReasons: readonly string[];
  readonly usage: { readonly prompt: number; readonly completion: number; readonly total: number };
}

describe("the answer to a request", () => {
  let service: RunningService;
  let ways: readonly RpcWay[];
  beforeAll(async () => {
    service = await startService({
      config: {
        models: [
          { id: "m", engine: "scripted", scripted: { text, token_delay_ms: 1 } },
          { id: "e", engine: "scripted", scripted: { dimensions: 8 } },
          { id: "r", engine: "scripted", scripted: { rerank: true } },
        ],
      },
    });
    ways = wayNames.map((name) => openWay(name, service));
  });
  afterAll(async () => {
    for (const way of ways) way.close();
    await service.close();
  });

  const usageOf = ({ promptTokens, completionTokens, totalTokens }: Usage = create(UsageSchema)) => ({
    prompt: promptTokens,
    completion: completionTokens,
    total: totalTokens,
  });

  async function unary(way: RpcWay): Promise<Answer> {
    const { messages } = await way.call(createChatCompletion, chatOf("m", fields));
    const completion = messages[0]?.completion;
    const choices = completion?.choices ?? [];
    return {
      contents: choices.map(({ message }) => message?.content ?? ""),
      finishReasons: choices.map(({ finishReason }) => finishReason),
      usage: usageOf(completion?.usage),
    };
  }

  async function streamed(way: RpcWay): Promise<Answer> {
    const { messages } = await way.call(streamChatCompletion, chatOf("m", fields));
    const contents = ["", ""];
    const finishReasons = ["", ""];
    for (const { chunk } of messages) {
      for (const { index, delta, finishReason } of chunk?.choices ?? []) {
        contents[index] += delta?.content ?? "";
        finishReasons[index] = finishReason ?? finishReasons[index] ?? "";
      }
    }
    return { contents, finishReasons, usage: usageOf(messages.at(-1)?.chunk?.usage) };
  }

  const post = (path: string, body: object) =>
    fetch(service.api + path, {
      method: "POST",
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const restBody = {
    model: "m",
    messages: [{ role: "user", content: "Say something." }],
    max_completion_tokens: 6,
    seed: 1,
    n: 2,
  };
  const restUsage = (usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number }) => ({
    prompt: usage.prompt_tokens,
    completion: usage.completion_tokens,
    total: usage.total_tokens,
  });

  async function rest(): Promise<Answer> {
    const { choices, usage } = await (await post("/chat/completions", restBody)).json();
    return {
      contents: choices.map(({ message }: { message: { content: string } }) => message.content),
      finishReasons: choices.map(({ finish_reason }: { finish_reason: string }) => finish_reason),
      usage: restUsage(usage),
    };
  }

  async function sse(): Promise<Answer> {
    const response = await post("/chat/completions", {
      ...restBody,
      stream: true,
      stream_options: { include_usage: true },
    });
    const events = (await response.text()).split("\n\n").filter((event) => event.startsWith("data: {"));
    const contents = ["", ""];
    const finishReasons = ["", ""];
    let usage = { prompt_tokens: -1, completion_tokens: -1, total_tokens: -1 };
    for (const event of events) {
      const chunk = JSON.parse(event.slice("data: ".length));
      for (const { index, delta, finish_reason } of chunk.choices) {
        contents[index] += delta.content ?? "";
        finishReasons[index] = finish_reason ?? finishReasons[index];
      }
      usage = chunk.usage ?? usage;
    }
    return { contents, finishReasons, usage: restUsage(usage) };
  }

  it("has the same content, finish reasons and usage over REST, SSE, gRPC, Connect and gRPC-Web (GRPC-2)", async () => {
    const expected: Answer = {
      contents: ["One two three four five six,", "One two three four five six,"],
      finishReasons: ["length", "length"],
      usage: { prompt: 2, completion: 12, total: 14 },
    };
    expect(await rest(), "REST").toEqual(expected);
    expect(await sse(), "SSE").toEqual(expected);
    for (const way of ways) {
      expect(await unary(way), `${way.name}, unary`).toEqual(expected);
      expect(await streamed(way), `${way.name}, stream`).toEqual(expected);
    }
  });

  it("has the same vectors of embeddings over REST, gRPC, Connect and gRPC-Web (GRPC-2, PROTO-7)", async () => {
    const inputs = ["one", "two three"];
    const { data, usage } = await (await post("/embeddings", { model: "e", input: inputs })).json();
    const expected = data.map(({ embedding }: { embedding: number[] }) => embedding.map(Math.fround));
    for (const way of ways) {
      const { messages } = await way.call(createEmbeddings, { params: { model: "e", input: inputs } });
      const list = messages[0]?.embeddings;
      const vectors = list?.data.map(({ vector }) => [...new Float32Array(Uint8Array.from(vector).buffer)]);
      expect(vectors, way.name).toEqual(expected);
      expect(usageOf(list?.usage).total, way.name).toBe(usage.total_tokens);
    }
  });

  it("has the same token count of a prompt over REST, gRPC, Connect and gRPC-Web (GRPC-2, ANT-6)", async () => {
    const body = { model: "m", messages: restBody.messages };
    expect(await (await post("/messages/count_tokens", body)).json()).toEqual({ input_tokens: 2 });
    for (const way of ways) {
      const { messages, failure } = await way.call(countTokens, chatOf("m"));
      expect(failure, way.name).toBeNull();
      expect(messages, way.name).toMatchObject([{ promptTokens: 2, estimated: false }]);
      const refused = await way.call(countTokens, { params: { model: "m" } });
      expect(refused.failure, way.name).toMatchObject({ reason: "EMPTY_ARRAY", param: "messages" });
    }
  });

  it("has the same ranking of documents over REST, gRPC, Connect and gRPC-Web (GRPC-2, RANK-3, RANK-4, RANK-5, RANK-6)", async () => {
    const documents = ["one", "two three", "three", "four"];
    const query = "two three";
    const { results, usage } = await (
      await post("/rerank", { model: "r", query, documents, top_n: 3, return_documents: true })
    ).json();
    expect(results).toEqual([
      { index: 1, relevance_score: 1, document: { text: "two three" } },
      { index: 2, relevance_score: 0.5, document: { text: "three" } },
      { index: 0, relevance_score: 0, document: { text: "one" } },
    ]);
    for (const way of ways) {
      const ranked = async (fields: object = {}) =>
        (await way.call(rerank, { params: { model: "r", query, documents, ...fields } })).messages[0]?.ranking;
      const ranking = await ranked({ topN: 3 });
      const seen = ranking?.results.map(({ index, relevanceScore, document }) => ({
        index,
        relevance_score: relevanceScore,
        document: { text: document?.text },
      }));
      expect(seen, way.name).toEqual(results);
      expect(ranking?.id, way.name).toMatch(/^rerank-/);
      expect(ranking?.model, way.name).toBe("r");
      expect(usageOf(ranking?.usage), way.name).toEqual({ prompt: 7, completion: 0, total: usage.total_tokens });
      const bare = await ranked({ returnDocuments: false });
      expect(
        bare?.results.map(({ document }) => document),
        way.name,
      ).toEqual(Array(4).fill(undefined));
    }
  });
});
