import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ToolChoice_Mode, ToolChoiceSchema, ToolSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import { DocumentedAnswers } from "../../support/documented-answers.js";
import { writeRandomBertGguf } from "../../support/gguf/random-gguf.js";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { readOpenApi } from "../../support/openapi-document.js";
import { hasPython } from "../../support/python-venv.js";
import { type LlamaUpstreams, startLlamaUpstreams } from "../../support/upstream/llama-upstreams.js";
import { hermesTemplate } from "../../unit/engines/llama/text/templates.js";
import { type ChatAnswer, streamedAnswer, streaming, wholeAnswer } from "../llama/chat-answer.js";
import { type Api, createApi, eventsOf, expectError, user } from "../openai/api.js";
import { describeChatValues } from "../openai/values-chat.suite.js";
import { describeMessageValues } from "../openai/values-messages.suite.js";
import {
  chatMethods,
  chatOf,
  createChatCompletion,
  createCompletion,
  createEmbeddings,
  streamChatCompletion,
  streamCompletion,
} from "../rpc/chat-requests.js";
import { openWay, type RpcWay, wayNames } from "../rpc/ways.js";

/** The model generates one token for each word, and one that ends the answer, which llama.cpp counts. */
const text = "Once upon a time 河の水 ran down; 🦊🙂 drank, said “good” and слово.";
const words = text.split(" ").length;
const calls = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo 🙂"}}\n</tool_call>';
const contextLength = 16_384;

const tool = (name: string) => ({ type: "function", function: { name } });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = { type: "function", function: { name: "get_weather", parameters } };

let service: LlamaUpstreams;
let api: Api;
let ways: readonly RpcWay[];

async function both(fields: object): Promise<readonly ChatAnswer[]> {
  return [wholeAnswer(await api.chat(fields)), streamedAnswer(await api.chat({ ...fields, ...streaming }))];
}

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("llama.cpp's own server through every protocol", () => {
  beforeAll(async () => {
    const server = { slots: 2, contextLength };
    service = await startLlamaUpstreams([
      {
        id: "test-chat",
        server,
        write: (path) => writeScriptedGguf(path, { text, contextLength, chatTemplate: hermesTemplate }),
      },
      {
        id: "calls",
        server,
        write: (path) => writeScriptedGguf(path, { text: calls, contextLength, chatTemplate: hermesTemplate }),
      },
      {
        id: "test-embed",
        server: { slots: 1, contextLength: 512, embedding: true },
        write: (path) => writeRandomBertGguf(path),
        settings: { capabilities: ["embeddings"] },
      },
    ]);
    api = createApi(service);
    ways = wayNames.map((name) => openWay(name, service));
  }, 300_000);
  afterAll(async () => {
    for (const way of ways ?? []) way.close();
    await service?.close();
  });

  /** The suites close their service at the end, so `close` does nothing: they share this one. */
  const shared = async () => ({ ...service, close: async () => {} });
  const forced = [
    "required",
    tool("f"),
    { type: "allowed_tools", allowed_tools: { mode: "required", tools: [tool("f"), tool("g")] } },
  ];
  describe("values of a chat request", () =>
    // Answers in a required format are random tokens, which would continue for a long time.
    describeChatValues(shared, {
      beside: { max_tokens: 8 },
      unavailable: forced.map((value) => ({ field: "tool_choice", value, status: 502, code: "upstream_error" })),
    }));
  describe("messages of a chat request", () => describeMessageValues(shared));

  it("a chat has the same content, finish reason and usage over REST, SSE, gRPC, Connect and gRPC-Web (GRPC-2)", async () => {
    const [rest, sse] = await both({});
    expect(rest).toMatchObject({ content: text, finishReason: "stop", usage: { completion_tokens: words + 1 } });
    expect(sse).toMatchObject({ content: text, finishReason: "stop" });
    const total = rest?.usage.total_tokens;
    expect(sse?.usage.total_tokens).toBe(total);
    for (const way of ways) {
      const unary = (await way.call(createChatCompletion, chatOf("test-chat", {}, user.content))).messages[0]
        ?.completion;
      expect({
        way: way.name,
        content: unary?.choices[0]?.message?.content,
        finishReason: unary?.choices[0]?.finishReason,
        total: unary?.usage?.totalTokens,
      }).toEqual({ way: way.name, content: text, finishReason: "stop", total });
      const { messages } = await way.call(streamChatCompletion, chatOf("test-chat", {}, user.content));
      const deltas = messages.flatMap(({ chunk }) => chunk?.choices.map(({ delta }) => delta?.content ?? "") ?? []);
      expect([way.name, deltas.join("")]).toEqual([way.name, text]);
      expect(messages.at(-1)?.chunk?.usage?.totalTokens).toBe(total);
    }
  });

  it("completions and embeddings are the same over REST, gRPC, Connect and gRPC-Web (GRPC-2, PROTO-7)", async () => {
    const prompt = "Go on.";
    const completed = (await api.completion({ prompt })).json;
    expect(completed.choices[0].text).toBe(text);
    const embedded = (await api.embeddings({ input: prompt })).json;
    const vector = embedded.data[0].embedding.map(Math.fround);
    for (const way of ways) {
      const whole = (await way.call(createCompletion, { params: { model: "test-chat", prompt: [prompt] } }))
        .messages[0];
      expect([way.name, whole?.completion?.choices[0]?.text]).toEqual([way.name, text]);
      expect(whole?.completion?.usage?.totalTokens).toBe(completed.usage.total_tokens);
      const { messages } = await way.call(streamCompletion, { params: { model: "test-chat", prompt: [prompt] } });
      expect(messages.map(({ chunk }) => chunk?.choices[0]?.text ?? "").join("")).toBe(text);
      const params = { model: "test-embed", input: [prompt] };
      const list = (await way.call(createEmbeddings, { params })).messages[0]?.embeddings;
      const bytes = Uint8Array.from(list?.data[0]?.vector ?? []);
      expect([way.name, ...new Float32Array(bytes.buffer)]).toEqual([way.name, ...vector]);
      expect(list?.usage?.totalTokens).toBe(embedded.usage.total_tokens);
    }
  });

  it("answers match docs/openapi.json (RESP-1, STRM-10, CMPL-4, EMB-3)", async () => {
    const documented = new DocumentedAnswers(readOpenApi());
    const logprobs = { logprobs: true, top_logprobs: 2 };
    const answers = [
      ["createChatCompletion", await api.chat({ n: 2, ...logprobs })],
      ["createChatCompletion", await api.chat({ n: 2, ...logprobs, ...streaming })],
      ["createChatCompletion", await api.chat({ model: "calls", tools: [weather], ...streaming })],
      ["createCompletion", await api.completion({ prompt: ["a", "b"], logprobs: 2 })],
      ["createCompletion", await api.completion({ echo: true, ...streaming })],
      ["createEmbeddings", await api.embeddings({ input: ["a", "b"] })],
      ["createEmbeddings", await api.embeddings({ encoding_format: "base64" })],
    ] as const;
    for (const [operation, reply] of answers) {
      expect([operation, reply.status, reply.text]).toEqual([operation, 200, reply.text]);
      expect(documented.faults(operation, reply)).toEqual([]);
    }
  });

  it("a forced tool call that the model does not generate is 502, never 200 with text, on every protocol (TOOL-5)", async () => {
    const maxCompletionTokens = 100;
    for (const stream of [false, true]) {
      const fields = { tools: [weather], tool_choice: "required", max_tokens: maxCompletionTokens, stream };
      const reply = await api.chat(fields);
      expectError(reply, 502, "upstream_error");
      expect(reply.text).not.toContain("Once");
    }
    const tools = [
      create(ToolSchema, { function: { name: "get_weather", parametersJson: JSON.stringify(parameters) } }),
    ];
    const toolChoice = create(ToolChoiceSchema, { choice: { case: "mode", value: ToolChoice_Mode.REQUIRED } });
    for (const way of ways) {
      for (const method of chatMethods) {
        const { failure, messages } = await way.call(
          method,
          chatOf("test-chat", { tools, toolChoice, maxCompletionTokens }),
        );
        expect([way.name, messages, failure?.reason]).toEqual([way.name, [], "UPSTREAM_ERROR"]);
      }
    }
  });

  it("a generated tool call is parsed, forced or not, streamed or not (TOOL-3, TOOL-5, TOOL-10)", async () => {
    for (const fields of [{}, { tool_choice: "required" }, { tool_choice: tool("get_weather") }]) {
      for (const answer of await both({ model: "calls", tools: [weather], ...fields })) {
        expect(answer).toMatchObject({ content: "", finishReason: "tool_calls" });
        expect(answer.calls).toEqual([{ id: expect.any(String), name: "get_weather", arguments: expect.any(String) }]);
        expect(JSON.parse(answer.calls[0]?.arguments ?? "")).toEqual({ city: "Oslo 🙂" });
      }
    }
  });

  it("an answer satisfies the schema of the request (RF-2)", async () => {
    const schema = { enum: ["日本語 🙂"] };
    const response_format = { type: "json_schema", json_schema: { name: "a", strict: true, schema } };
    // llama.cpp lets a model think before JSON, and this one would choose to by chance.
    for (const { content } of await both({ response_format, temperature: 0 }))
      expect(JSON.parse(content)).toBe("日本語 🙂");
  });

  it("constraints of an answer are sent in the server's own fields and kept (E-5, CHAT-30)", async () => {
    const choices = ["yes", 'no "really"', "日本"];
    for (const { content } of await both({ guided_choice: choices })) expect(choices).toContain(content);
    for (const { content } of await both({ grammar: 'root ::= "a" [0-9]{3}' })) expect(content).toMatch(/^a[0-9]{3}$/);
    const schema = { enum: ["on", "off"] };
    const { json } = await api.completion({
      model: "test-chat",
      prompt: "Hi",
      guided_json: { ...schema, type: "string" },
    });
    expect(schema.enum).toContain(JSON.parse(json.choices[0].text));
    const longer = words + 5;
    const [whole] = await both({ ignore_eos: true, max_tokens: longer });
    expect(whole).toMatchObject({ finishReason: "length", usage: { completion_tokens: longer } });
    expectError(await api.chat({ guided_regex: "a+" }), 400, "unsupported_parameter", "guided_regex");
  });

  it("log probabilities and echo of a completion have its text only, without an end token (CMPL-7, CMPL-8)", async () => {
    const { choices } = (await api.completion({ logprobs: 2, max_tokens: 100 })).json;
    expect(choices[0].logprobs.tokens.join("")).toBe(text);
    expect(choices[0].logprobs.tokens).toHaveLength(words);
    const echoed = (await api.completion({ prompt: "a b", echo: true, max_tokens: 0, logprobs: null })).json;
    expect(echoed).toMatchObject({
      choices: [{ text: "a b", finish_reason: "length" }],
      usage: { completion_tokens: 0 },
    });
    const stream = await api.completion({ prompt: "a b ", echo: true, stream: true });
    const pieces = eventsOf(stream.text).slice(0, -1);
    expect(pieces.map((chunk) => chunk.choices[0].text).join("")).toBe(`a b ${text}`);
  });

  const part = (content: object) => ({ messages: [{ role: "user", content: [content] }] });
  it.each([
    [
      "an image",
      "chat",
      part({ type: "image_url", image_url: { url: "data:image/png;base64,AA==" } }),
      "messages[0].content[0]",
    ],
    [
      "a sound",
      "chat",
      part({ type: "input_audio", input_audio: { data: "AA==", format: "wav" } }),
      "messages[0].content[0]",
    ],
    ["a file", "chat", part({ type: "file", file: { file_id: "f" } }), "messages[0].content[0]"],
    ["echo with log probabilities", "completion", { echo: true, logprobs: 1 }, "logprobs"],
    ["fewer dimensions", "embeddings", { dimensions: 8 }, "dimensions"],
    ["token ids for embeddings", "embeddings", { input: [1, 2] }, "input"],
    ["embeddings of a chat model", "embeddings", { model: "test-chat" }, "model"],
    ["a chat of an embedding model", "chat", { model: "test-embed" }, "model"],
    ["a ranking", "rerank", { model: "test-chat" }, "model"],
  ] as const)("%s is rejected with the name of its field", async (_, operation, fields, param) => {
    const reply = await api[operation](fields);
    expect([reply.status, reply.json?.error?.param, reply.text]).toEqual([400, param, reply.text]);
  });

  it("a prompt that is too long is rejected with the context length in the message, on every protocol (ERR-26, CHAT-6)", async () => {
    const content = "#".repeat(2 * contextLength);
    const words = `maximum context length is ${contextLength} tokens`;
    for (const fields of [{}, { stream: true }]) {
      const reply = await api.chat({ messages: [{ role: "user", content }], ...fields });
      expectError(reply, 400, "context_length_exceeded", "messages");
      expect(reply.json.error.message).toContain(words);
    }
    expectError(await api.completion({ prompt: content }), 400, "context_length_exceeded", "prompt");
    for (const way of ways) {
      for (const method of chatMethods) {
        const { failure } = await way.call(method, chatOf("test-chat", {}, content));
        expect(failure).toMatchObject({ code: status.INVALID_ARGUMENT, param: "messages" });
        expect(failure?.message).toContain(words);
      }
    }
  });
});
