import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { emptyAnswer, toolMessage, userMessage } from "../../../src/dashboard/pages/playground/answers.js";
import { messagesRequest, responsesRequest } from "../../../src/dashboard/pages/playground/chat-apis.js";
import { type Address, type ChatApi, exampleOf } from "../../../src/dashboard/pages/playground/examples.js";
import { chatRequest, embeddingRequest, noSettings } from "../../../src/dashboard/pages/playground/requests.js";

const here: Address = { base: "https://ai.example/inference", grpc: "ai.example:50051", isTls: true };
const awkward = `It's "$HOME" \`id\` \\n\nTrue?`;
const request = chatRequest("m", { ...noSettings, temperature: "0.5" }, [userMessage(awkward)]);

/** The arguments that a shell passes for a command line. */
function argumentsOf(command: string): readonly string[] {
  const [, ...rest] = command.split(/^(?:curl|buf curl) /);
  return execFileSync("/bin/sh", ["-c", `printf '%s\\0' ${rest.join("")}`], { env: { UIS_API_KEY: "secret" } })
    .toString()
    .split("\0");
}

describe("a request as code to copy", () => {
  it("is a curl command whose body the shell passes on unchanged", () => {
    const words = argumentsOf(exampleOf("curl", request, here).text);
    expect(words).toContain("https://ai.example/inference/v1/chat/completions");
    expect(words).toContain("authorization: Bearer secret");
    expect(JSON.parse(words[words.indexOf("-d") + 1] ?? "")).toEqual(request.openai);
  });

  it("is a buf curl command with a message of the protobuf contract", () => {
    const words = argumentsOf(exampleOf("gRPC", request, here).text);
    expect(words).toContain("https://ai.example:50051/unified.inference.v1.InferenceService/StreamChatCompletion");
    expect(words).not.toContain("--http2-prior-knowledge");
    expect(JSON.parse(words[words.indexOf("-d") + 1] ?? "")).toEqual({ params: request.params });
    expect(exampleOf("gRPC", request, { ...here, isTls: false }).text).toContain("--http2-prior-knowledge");
  });

  it("is a Python program with Python literals", () => {
    const { text } = exampleOf("Python", request, here);
    expect(text).toContain('base_url="https://ai.example/inference/v1", api_key=os.environ["UIS_API_KEY"]');
    expect(text).toContain('client.chat.completions.create(\n    model="m",\n');
    expect(text).toContain("    temperature=0.5,\n    max_tokens=1024,\n    stream=True,\n)");
    expect(exampleOf("Python", embeddingRequest("m", "a"), here).text).toContain("client.embeddings.create(");
  });

  it("is a TypeScript program", () => {
    const { text } = exampleOf("TypeScript", request, here);
    expect(text).toContain("apiKey: env.UIS_API_KEY");
    expect(text).toContain(JSON.stringify(awkward));
  });

  it.each(["curl", "Python", "TypeScript", "gRPC"] as const)("contains no API key: %s", (language) => {
    for (const api of ["chat", "responses", "messages"] as const) {
      const { text } = exampleOf(language, request, here, api);
      expect(text).toContain("UIS_API_KEY");
      expect(text).not.toMatch(/(Bearer|x-api-key:) (?!\$UIS_API_KEY)/);
    }
  });

  it("uses the SDK and the base URL of its API", () => {
    const python = (api: ChatApi) => exampleOf("Python", request, here, api).text;
    expect(python("responses")).toContain('client = OpenAI(base_url="https://ai.example/inference/v1"');
    expect(python("responses")).toContain("client.responses.create(");
    expect(python("messages")).toContain("from anthropic import Anthropic");
    expect(python("messages")).toContain('client = Anthropic(base_url="https://ai.example/inference"');
    expect(exampleOf("TypeScript", request, here, "messages").text).toContain(
      'import Anthropic from "@anthropic-ai/sdk";',
    );
    const words = argumentsOf(exampleOf("curl", request, here, "messages").text);
    expect(words).toContain("https://ai.example/inference/v1/messages");
    expect(words).toContain("x-api-key: secret");
    expect(exampleOf("curl", embeddingRequest("m", "a"), here, "messages").text).toContain("/v1/embeddings");
  });
});

describe("a chat in the other APIs", () => {
  const parameters = { type: "object", properties: { city: { type: "string" } } };
  const tool = { type: "function", function: { name: "weather", description: "The weather.", parameters } } as const;
  const call = (id: string, argumentsJson: string) => ({ id, name: "weather", argumentsJson });
  const settings = { system: "Be short.", temperature: "0.5", topP: "0.9", seed: "42", stop: "END", maxTokens: "7" };
  const { parts } = chatRequest("m", { ...noSettings, ...settings, tools: JSON.stringify([tool]) }, [
    userMessage("Hi"),
    { ...emptyAnswer, text: "Let me look.", calls: [call("call_1", '{"city":"Oslo"}'), call("call_2", '{"ci')] },
    toolMessage("call_1", "Rain"),
    toolMessage("call_2", "Sun"),
    { ...emptyAnswer, text: "Rain and sun." },
    userMessage("Thanks"),
  ]);

  it("becomes a request of the responses API, without parameters that this API does not have", () => {
    expect(responsesRequest(parts)).toEqual({
      body: {
        model: "m",
        instructions: "Be short.",
        input: [
          { role: "user", content: "Hi" },
          { role: "assistant", content: "Let me look." },
          { type: "function_call", call_id: "call_1", name: "weather", arguments: '{"city":"Oslo"}' },
          { type: "function_call", call_id: "call_2", name: "weather", arguments: '{"ci' },
          { type: "function_call_output", call_id: "call_1", output: "Rain" },
          { type: "function_call_output", call_id: "call_2", output: "Sun" },
          { role: "assistant", content: "Rain and sun." },
          { role: "user", content: "Thanks" },
        ],
        temperature: 0.5,
        top_p: 0.9,
        max_output_tokens: 7,
        tools: [{ type: "function", name: "weather", description: "The weather.", parameters }],
        stream: true,
      },
      omitted: ["seed", "stop"],
    });
  });

  it("becomes a request of the messages API, with tool results in one user message", () => {
    const use = { type: "tool_use", name: "weather" };
    expect(messagesRequest(parts)).toEqual({
      body: {
        model: "m",
        system: "Be short.",
        messages: [
          { role: "user", content: "Hi" },
          {
            role: "assistant",
            content: [
              { type: "text", text: "Let me look." },
              { ...use, id: "call_1", input: { city: "Oslo" } },
              { ...use, id: "call_2", input: {} },
            ],
          },
          {
            role: "user",
            content: [
              { type: "tool_result", tool_use_id: "call_1", content: "Rain" },
              { type: "tool_result", tool_use_id: "call_2", content: "Sun" },
            ],
          },
          { role: "assistant", content: "Rain and sun." },
          { role: "user", content: "Thanks" },
        ],
        temperature: 0.5,
        top_p: 0.9,
        max_tokens: 7,
        stop_sequences: ["END"],
        tools: [{ name: "weather", description: "The weather.", input_schema: parameters }],
        stream: true,
      },
      omitted: ["seed"],
    });
  });

  it("always has a maximum of tokens in the messages API, and no empty settings", () => {
    const { parts } = chatRequest("m", { ...noSettings, maxTokens: "" }, [userMessage("Hi")]);
    const messages = [{ role: "user", content: "Hi" }];
    expect(messagesRequest(parts).body).toEqual({ model: "m", messages, max_tokens: 1024, stream: true });
    expect(responsesRequest(parts).body).toEqual({ model: "m", input: messages, stream: true });
  });
});
