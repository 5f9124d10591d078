import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { Role, ToolSchema } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { GenerateRequest } from "../../../../src/domain/engine/engine.js";
import { type UpstreamKind, upstreamKinds } from "../../../../src/domain/engine/upstream.js";
import { kindProfiles } from "../../../../src/engines/openai/protocol/kinds.js";
import {
  embedBody,
  generateBody,
  rerankBody,
  withinContext,
} from "../../../../src/engines/openai/protocol/request-body.js";
import { chatRequest, completionRequest, userMessage } from "../../../support/upstream/engine-calls.js";

function body(request: GenerateRequest, kind: UpstreamKind = "generic", passThrough: readonly string[] = []) {
  return JSON.parse(generateBody(request, { model: "up/m", dialect: kindProfiles[kind].dialect, passThrough }));
}

const toolBody = (mode: "auto" | "required" | "named", kind: UpstreamKind = "generic") =>
  body(chatRequest({ tool: mode === "named" ? { mode, name: "get_weather" } : { mode } }), kind);

describe("bodies of requests to upstream servers", () => {
  it("a plain request has the model, the messages and streaming, and no other field", () => {
    expect(body(chatRequest())).toEqual({
      model: "up/m",
      messages: [{ role: "user", content: "Say hello in five words." }],
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(body(completionRequest())).toEqual({
      model: "up/m",
      prompt: "The capital of France is",
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  it("all options that the client set are passed on", () => {
    const sampling = {
      n: 2,
      maxTokens: 5,
      stop: ["a", '"'],
      temperature: 0,
      topP: 0.5,
      topK: 7,
      minP: 0.1,
      repetitionPenalty: 1.1,
      seed: 2n ** 62n,
      frequencyPenalty: -1,
      presencePenalty: 0,
      logitBias: new Map([[5, -100]]),
    };
    expect(
      generateBody(chatRequest(sampling), { model: "m", dialect: kindProfiles.generic.dialect, passThrough: [] }),
    ).toContain(`"seed":${2n ** 62n}`);
    expect(
      body(chatRequest({ ...sampling, logprobs: 3, reasoningEffort: "low", chatTemplateKwargsJson: '{"a":1}' })),
    ).toMatchObject({
      n: 2,
      max_tokens: 5,
      stop: ["a", '"'],
      temperature: 0,
      top_p: 0.5,
      top_k: 7,
      min_p: 0.1,
      repetition_penalty: 1.1,
      frequency_penalty: -1,
      presence_penalty: 0,
      logit_bias: { 5: -100 },
      logprobs: true,
      top_logprobs: 3,
      reasoning_effort: "low",
      chat_template_kwargs: { a: 1 },
    });
    expect(body(completionRequest({ ...sampling, logprobs: 0, echo: true }), "vllm")).toMatchObject({
      logprobs: 0,
      echo: true,
    });
    expect(body(completionRequest({ input: { prompt: [1, 2, 3] } }), "vllm")).toMatchObject({ prompt: [1, 2, 3] });
  });

  it("labels are sent unchanged, and further fields only if the deployment lists them", () => {
    const passOn = {
      user: "u",
      safetyIdentifier: "s",
      promptCacheKey: "k",
      metadata: { a: "b" },
      store: false,
      serviceTier: "flex",
      verbosity: "low",
      fieldsJson: { guided_json: '{"big":12345678901234567890}', best_of: "2", model: '"other"', 'a"b': "1" },
    };
    const settings = {
      model: "m",
      dialect: kindProfiles.generic.dialect,
      passThrough: ["guided_json", "model", 'a"b'],
    };
    const text = generateBody(chatRequest({ passOn }), settings);
    expect(text).toContain('"guided_json":{"big":12345678901234567890}');
    const { messages: _, stream: __, stream_options: ___, guided_json: ____, ...sent } = JSON.parse(text);
    expect(sent).toEqual({
      model: "m",
      user: "u",
      safety_identifier: "s",
      prompt_cache_key: "k",
      metadata: { a: "b" },
      store: false,
      service_tier: "flex",
      verbosity: "low",
      'a"b': 1,
    });
  });

  it("text that is not one JSON value cannot add members to the body", () => {
    const passOn = { fieldsJson: { guided_json: '{},"model":"other"' } };
    expect(() => body(chatRequest({ passOn }), "generic", ["guided_json"])).toThrow("'guided_json' is not JSON");
    expect(() => body(chatRequest({ chatTemplateKwargsJson: "{" }))).toThrow("not JSON");
  });

  it.each([
    ["openai", "max_completion_tokens"],
    ["azure", "max_completion_tokens"],
    ["vllm", "max_tokens"],
    ["ollama", "max_tokens"],
    ["generic", "max_tokens"],
  ] as const)("%s receives the limit of output tokens as %s", (kind, name) => {
    expect(body(chatRequest({ maxTokens: 5 }), kind)).toMatchObject({ [name]: 5 });
    expect(body(completionRequest({ maxTokens: 5 }), kind)).toMatchObject({ max_tokens: 5 });
  });

  it("a chat is sent without a token limit that is not below the context, which servers would reject (CHAT-6, ANT-1)", () => {
    const limitOf = (request: GenerateRequest, length: number | null) =>
      body(withinContext(request, length)).max_tokens;
    const chat = chatRequest({ maxTokens: 32_000 });
    expect([32_000, 8_192].map((length) => limitOf(chat, length))).toEqual([undefined, undefined]);
    expect([32_001, null].map((length) => limitOf(chat, length))).toEqual([32_000, 32_000]);
    expect(limitOf(completionRequest({ maxTokens: 32_000 }), 8_192)).toBe(32_000);
  });

  it("generic servers receive the limit of output tokens under the name that the client used", () => {
    expect(body(chatRequest({ maxTokens: 5, passOn: { hasMaxCompletionTokens: true } }))).toMatchObject({
      max_completion_tokens: 5,
    });
  });

  it("sampling options outside OpenAI's API are sent under the server's names or left out", () => {
    const options = { topK: 3, minP: 0.1, repetitionPenalty: 1.2, chatTemplateKwargsJson: "{}" };
    expect(body(chatRequest(options), "llama-server")).toMatchObject({ top_k: 3, min_p: 0.1, repeat_penalty: 1.2 });
    for (const kind of ["openai", "azure", "ollama"] as const) {
      expect(Object.keys(body(chatRequest(options), kind))).toEqual(["model", "messages", "stream", "stream_options"]);
    }
  });

  it("usage in every chunk is requested if the server supports it, and chunks without padding", () => {
    const options = (kind: UpstreamKind) => body(chatRequest(), kind).stream_options;
    expect(options("vllm")).toEqual({ include_usage: true, continuous_usage_stats: true });
    expect(options("openai")).toEqual({ include_usage: true, include_obfuscation: false });
    for (const kind of upstreamKinds) expect(options(kind)).toMatchObject({ include_usage: true });
  });

  it("progress of the prompt is requested from llama.cpp, which only then notices an abort during the prompt", () => {
    for (const kind of upstreamKinds) {
      expect(body(chatRequest(), kind).return_progress, kind).toBe(kind === "llama-server" ? true : undefined);
    }
  });

  it("tools and their choice are sent; for llama.cpp a named function becomes `required`", () => {
    expect(toolBody("auto")).toMatchObject({
      tools: [{ type: "function", function: { name: "get_weather", parameters: { type: "object" } } }],
    });
    expect(toolBody("auto")).not.toHaveProperty("tool_choice");
    expect(toolBody("required").tool_choice).toBe("required");
    expect(toolBody("named").tool_choice).toEqual({ type: "function", function: { name: "get_weather" } });
    expect(toolBody("named", "llama-server").tool_choice).toBe("required");
    const strict = create(ToolSchema, { function: { name: "f", description: "d", strict: true } });
    const request = chatRequest({ tool: { mode: "auto" } });
    const single = {
      ...request,
      input: { ...request.input, tools: [strict], parallelToolCalls: false },
    } as GenerateRequest;
    expect(body(single)).toMatchObject({
      tools: [{ function: { name: "f", description: "d", strict: true } }],
      parallel_tool_calls: false,
    });
    expect(body(single, "ollama")).not.toHaveProperty("parallel_tool_calls");
  });

  it("formats are sent as `response_format`", () => {
    expect(body(chatRequest({ format: { type: "json_object" } })).response_format).toEqual({ type: "json_object" });
    const format = { type: "json_schema", name: "s", schemaJson: '{"type":"object"}', strict: true } as const;
    expect(body(chatRequest({ format })).response_format).toEqual({
      type: "json_schema",
      json_schema: { name: "s", schema: { type: "object" }, strict: true },
    });
  });

  it("messages of all roles and parts are sent", () => {
    const request = chatRequest({
      messages: [
        {
          role: Role.DEVELOPER,
          content: [{ part: { case: "text", value: "a" } }, { part: { case: "text", value: "b" } }],
        },
        {
          ...userMessage('"\n😀'),
          name: "Ann",
        },
        {
          role: Role.USER,
          content: [
            { part: { case: "text", value: "see" } },
            { part: { case: "imageUrl", value: { url: "data:image/png;base64,AA==", detail: "low" } } },
            { part: { case: "inputAudio", value: { data: "AA==", format: "wav" } } },
          ],
        },
        { role: Role.ASSISTANT, toolCalls: [{ id: "call_1", function: { name: "f", argumentsJson: '{"a":1}' } }] },
        { role: Role.TOOL, toolCallId: "call_1", content: [{ part: { case: "text", value: "5" } }] },
      ],
    });
    expect(body(request, "vllm").messages).toEqual([
      { role: "system", content: "ab" },
      { role: "user", content: '"\n😀', name: "Ann" },
      {
        role: "user",
        content: [
          { type: "text", text: "see" },
          { type: "image_url", image_url: { url: "data:image/png;base64,AA==", detail: "low" } },
          { type: "input_audio", input_audio: { data: "AA==", format: "wav" } },
        ],
      },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_1", type: "function", function: { name: "f", arguments: '{"a":1}' } }],
      },
      { role: "tool", content: "5", tool_call_id: "call_1" },
    ]);
    expect(body(request, "openai").messages[0].role).toBe("developer");
  });

  it("refusals are sent as text, and invalid arguments in an object, if the server rejects them (MSG-3, MSG-6)", () => {
    const call = (argumentsJson: string) => ({ id: "c", function: { name: "f", argumentsJson } });
    const refusal = { part: { case: "refusal", value: "no" } } as const;
    const text = { part: { case: "text", value: "Sorry: " } } as const;
    const request = chatRequest({
      messages: [{ role: Role.ASSISTANT, content: [text, refusal], toolCalls: ['{"a":1}', "{no", ""].map(call) }],
    });
    const sent = (kind: UpstreamKind) => {
      const [message] = body(request, kind).messages;
      const calls: { readonly function: { readonly arguments: string } }[] = message.tool_calls;
      return { content: message.content, arguments: calls.map((made) => made.function.arguments) };
    };
    for (const kind of upstreamKinds) {
      const isAny = kind === "openai" || kind === "azure";
      expect(sent(kind), kind).toEqual(
        isAny
          ? {
              content: [
                { type: "text", text: "Sorry: " },
                { type: "refusal", refusal: "no" },
              ],
              arguments: ['{"a":1}', "{no", ""],
            }
          : { content: "Sorry: no", arguments: ['{"a":1}', '{"invalid_json":"{no"}', "{}"] },
      );
    }
  });

  it("a limit of 0 is sent as 1 if this service itself adds the echo", () => {
    const limit = (kind: UpstreamKind) => body(completionRequest({ echo: true, maxTokens: 0 }), kind).max_tokens;
    expect([limit("vllm"), limit("llama-server")]).toEqual([0, 1]);
  });

  it("embeddings are requested in base64", () => {
    expect(JSON.parse(embedBody({ inputs: ["a", "b"], dimensions: 8 }, { model: "e" }))).toEqual({
      model: "e",
      input: ["a", "b"],
      encoding_format: "base64",
      dimensions: 8,
    });
    expect(JSON.parse(embedBody({ inputs: [[1, 2]] }, { model: "e" }))).toMatchObject({ input: [[1, 2]] });
  });

  it("the scores of all documents are requested, without their texts", () => {
    expect(JSON.parse(rerankBody({ query: "q", documents: ["a", "b"] }, { model: "r" }))).toEqual({
      model: "r",
      query: "q",
      documents: ["a", "b"],
      return_documents: false,
    });
  });
});
