import { describe, expect, it } from "vitest";
import { upstreamKinds } from "../../../../src/domain/engine/upstream.js";
import { capabilitiesOf, guessOperations, type ModelFacts } from "../../../../src/engines/openai/protocol/kinds.js";

const facts = (changes: Partial<ModelFacts> = {}): ModelFacts => ({
  model: "meta-llama/Llama-3.3-70B-Instruct",
  contextLength: null,
  embeddingDims: null,
  images: null,
  capabilities: null,
  passThrough: [],
  ...changes,
});

describe("capabilities of models on upstream servers", () => {
  it("every kind of server supports chat models whose context length is not known", () => {
    for (const kind of upstreamKinds) {
      expect(capabilitiesOf(kind, facts()), kind).toMatchObject({ chat: true, embeddings: false, contextLength: null });
    }
  });

  it("models of Ollama lack the capabilities that Ollama's server would ignore without an error", () => {
    expect(capabilitiesOf("ollama", facts())).toMatchObject({
      tools: "auto",
      toolChoice: false,
      logitBias: false,
      nativeN: false,
      logprobs: 0,
      tokenInput: false,
    });
  });

  it.each([
    ["text-embedding-3-small", "openai", ["embeddings"]],
    ["BAAI/bge-m3", "vllm", ["embeddings"]],
    ["intfloat/e5-large", "vllm", ["embeddings"]],
    ["models/minilm.gguf", "llama-server", ["embeddings"]],
    ["BAAI/bge-reranker-v2-m3", "vllm", ["rerank"]],
    ["gpt-5-mini", "openai", ["chat", "completions"]],
    ["gpt-4o-audio-preview", "openai", ["chat", "completions"]],
    ["gpt-3.5-turbo-instruct", "openai", ["completions"]],
    ["davinci-002", "openai", ["completions"]],
    ["dall-e-3", "openai", []],
    ["gpt-image-1", "openai", []],
    ["whisper-1", "openai", []],
    ["tts-1-hd", "openai", []],
    ["gpt-4o-mini-transcribe", "openai", []],
    ["omni-moderation-latest", "openai", []],
    ["gpt-realtime-mini", "openai", []],
    ["sora-2", "openai", []],
    ["gpt-5-codex", "openai", []],
    ["o3-pro-2025-06-10", "openai", []],
    ["gpt-5-pro", "openai", []],
    ["my-image-captions", "vllm", ["chat", "completions"]],
    ["claude-x", "anthropic", ["chat"]],
  ] as const)("the operations of %s on %s are %j", (model, kind, operations) => {
    expect(guessOperations(kind, model)).toEqual(operations);
  });

  it("a configured model of OpenAI supports chat with any id", () => {
    expect(capabilitiesOf("openai", facts({ model: "my-image-model" }))).toMatchObject({ chat: true });
  });

  it("images are refused if the server lists the model without them, unless the configuration allows them", () => {
    const vision = (changes: Partial<ModelFacts>) => capabilitiesOf("llama-server", facts(changes)).vision;
    const configured = { operations: ["chat"], abilities: ["vision"] } as const;
    expect([vision({ images: null }), vision({ images: true }), vision({ images: false })]).toEqual([
      true,
      true,
      false,
    ]);
    expect(vision({ images: false, capabilities: configured })).toBe(true);
  });

  it("a model lacks every capability that its configuration does not list", () => {
    expect(
      capabilitiesOf(
        "vllm",
        facts({ capabilities: { operations: ["embeddings"], abilities: [] }, embeddingDims: 8, contextLength: 512 }),
      ),
    ).toMatchObject({
      chat: false,
      completion: false,
      embeddings: true,
      embeddingDims: 8,
      maxEmbedTokens: 512,
      tokenInput: false,
    });
    expect(
      capabilitiesOf("vllm", facts({ capabilities: { operations: ["chat"], abilities: ["tools", "json_object"] } })),
    ).toMatchObject({
      chat: true,
      tools: "auto",
      toolChoice: false,
      jsonObject: true,
      jsonSchema: "none",
      logprobs: 0,
      nativeN: false,
      vision: false,
    });
  });
});
