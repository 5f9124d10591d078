import { describe, expect, it } from "vitest";
import { Role, ToolChoice_Mode } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { RequestDefaults } from "../../../../src/domain/engine/engine.js";
import { toChatRequest } from "../../../../src/domain/inference/chat-request.js";
import { caps } from "../../../support/capabilities.js";
import { chat, outcome, refusal, says, text } from "./params.js";

const build = (changes: Parameters<typeof chat>[0] = {}, able: Parameters<typeof caps>[0] = {}) =>
  toChatRequest(chat(changes), caps(able), null);
const check = (changes: Parameters<typeof chat>[0], able: Parameters<typeof caps>[0]): string =>
  outcome(() => build(changes, able));
const tools = ["f", "g"].map((name) => ({ function: { name } }));

/** The tools and the choice that reach the engine. */
function offered(changes: Parameters<typeof chat>[0]) {
  const { input } = build(changes);
  if (!("messages" in input)) throw new Error("a chat request has messages");
  const { toolChoice, parallelToolCalls } = input;
  return { names: input.tools.map((tool) => tool.function?.name), toolChoice, parallelToolCalls };
}

describe("toChatRequest", () => {
  it("options that the client did not set stay absent (CHAT-1, CHAT-2, CHAT-3, CHAT-10)", () => {
    const { input, ...options } = build();
    const ofTheCore = { requestId: "", queueMs: 0, cacheKey: "", deltas: "joined" };
    expect(options).toEqual({ n: 1, maxTokens: null, stop: [], ...ofTheCore });
  });

  describe("the configured defaults of a model", () => {
    const defaults: RequestDefaults = {
      temperature: 0.2,
      topP: 0.9,
      minP: 0.05,
      repetitionPenalty: 1.1,
      maxTokens: 100,
      stop: ["END"],
      system: "Answer in French.",
    };
    const withDefaults = (
      changes: Parameters<typeof chat>[0] = {},
      set: Partial<RequestDefaults> = {},
      able: Parameters<typeof caps>[0] = {},
    ) => toChatRequest(chat(changes), caps(able), { ...defaults, ...set });
    const messagesOf = ({ input }: ReturnType<typeof withDefaults>) => {
      if (!("messages" in input)) throw new Error("a chat request has messages");
      return input.messages.map(({ role, content }) => [role, content[0]?.part.value]);
    };

    it("are used for fields that the client does not set (CHAT-29)", () => {
      const { system: _, ...options } = defaults;
      const request = withDefaults();
      expect(request).toMatchObject(options);
      expect(messagesOf(request)[0]).toEqual([Role.SYSTEM, "Answer in French."]);
    });

    it("never replace a value that the client sets, not even 0 (CHAT-29)", () => {
      const own = { temperature: 0, topP: 0, minP: 0, repetitionPenalty: 2, stop: ["mine"], maxTokens: 7 };
      expect(withDefaults(own)).toMatchObject(own);
      expect(withDefaults({ maxCompletionTokens: 8 }).maxTokens).toBe(8);
    });

    it("add no system message to a chat that has a system or developer message (CHAT-29)", () => {
      for (const role of [Role.SYSTEM, Role.DEVELOPER]) {
        const messages = [says("Hi"), { role, content: [text("Be brief.")] }];
        expect(messagesOf(withDefaults({ messages }))).toHaveLength(2);
      }
    });

    it("stay absent in the request if they are not configured, and cannot exceed the model's maximum of output tokens", () => {
      const none = { temperature: null, topP: null, minP: null, repetitionPenalty: null, stop: [], system: null };
      const request = withDefaults({}, none, { maxOutput: 50 });
      expect(request.maxTokens).toBe(50);
      expect(request).not.toHaveProperty("temperature");
      expect(messagesOf(request)).toHaveLength(1);
    });

    it("do not change the message index that an error names", () => {
      const image = { part: { case: "imageUrl", value: { url: "data:image/png;base64,AAAA" } } } as const;
      const messages = [{ role: Role.USER, content: [image] }];
      expect(outcome(() => withDefaults({ messages }, {}, { vision: false }))).toBe(
        "unsupported_value messages[0].content[0]",
      );
    });
  });

  it("fields for an upstream server stay as the client sent them", () => {
    const fields = { user: "u", promptCacheKey: "k", metadata: { a: "b" }, store: true, verbosity: "low" };
    const passThroughJson = { own_field: '["a"]' };
    expect(build({ ...fields, maxCompletionTokens: 5, passThroughJson }).passOn).toEqual({
      ...fields,
      hasMaxCompletionTokens: true,
      fieldsJson: passThroughJson,
    });
    expect(build({ maxTokens: 5 })).not.toHaveProperty("passOn");
  });

  it("passes the requested options to the engine (CHAT-1, CHAT-9, CHAT-28)", () => {
    const asked = { temperature: 0, topP: 0, n: 3, topK: 5, minP: 0.1, repetitionPenalty: 1.1, seed: -(2n ** 63n) };
    expect(build(asked)).toMatchObject(asked);
  });

  it("max_completion_tokens takes precedence over max_tokens (CHAT-5)", () => {
    expect(build({ maxTokens: 10 }).maxTokens).toBe(10);
    expect(build({ maxTokens: 10, maxCompletionTokens: 20 }).maxTokens).toBe(20);
  });

  it("the maximum of output tokens is limited to the model's maximum (CHAT-6)", () => {
    expect(build({ maxTokens: 1_000_000 }, { maxOutput: 100 }).maxTokens).toBe(100);
  });

  it("empty stop strings are ignored (CHAT-7)", () => {
    expect(build({ stop: ["", "a", ""] }).stop).toEqual(["a"]);
  });

  it("logit_bias reaches the engine by token id; a model without it rejects it (CHAT-11)", () => {
    expect(build({ logitBias: { "7": -100 } }).logitBias).toEqual(new Map([[7, -100]]));
    expect(check({ logitBias: { "7": 1 } }, { logitBias: false })).toBe("unsupported_parameter logit_bias");
    expect(check({}, { logitBias: false })).toBe("accepted");
  });

  it("the requested number of alternative tokens is used if the model supports as many (CHAT-12, CHAT-13)", () => {
    expect(build({ logprobs: true }).logprobs).toBe(0);
    expect(build({ logprobs: true, topLogprobs: 5 }).logprobs).toBe(5);
    expect(build({ logprobs: false }).logprobs).toBeUndefined();
    expect(check({ logprobs: true }, { logprobs: 0 })).toBe("unsupported_parameter logprobs");
    expect(check({ logprobs: true, topLogprobs: 6 }, { logprobs: 5 })).toBe("unsupported_value top_logprobs");
  });

  it("penalties other than 0 need a model that supports them (CHAT-10)", () => {
    expect(check({ frequencyPenalty: 1 }, { penalties: false })).toBe("unsupported_parameter frequency_penalty");
    expect(check({ presencePenalty: 1 }, { penalties: false })).toBe("unsupported_parameter presence_penalty");
    expect(check({ frequencyPenalty: 0, presencePenalty: 0 }, { penalties: false })).toBe("accepted");
  });

  it("developer messages reach the engine with their role (MSG-1)", () => {
    const { input } = build({ messages: [{ role: Role.DEVELOPER, content: [text("Be brief.")] }] });
    expect("messages" in input && input.messages[0]?.role).toBe(Role.DEVELOPER);
  });

  it("an image for a model without vision is rejected with its path (MSG-4)", () => {
    const content = [
      text("Look:"),
      { part: { case: "imageUrl" as const, value: { url: "data:image/png;base64,AA" } } },
    ];
    const messages = [says("Hi"), { role: Role.USER, content }];
    expect(check({ messages }, { vision: false })).toBe("unsupported_value messages[1].content[1]");
    expect(check({ messages }, { vision: true })).toBe("accepted");
  });

  it("files, and audio for a model without it, are rejected with their path (MSG-3)", () => {
    const sound = { part: { case: "inputAudio" as const, value: { data: "AA==", format: "wav" } } };
    const file = { part: { case: "file" as const, value: { fileId: "x" } } };
    for (const part of [sound, file]) {
      const messages = [{ role: Role.USER, content: [part] }];
      expect(check({ messages }, { audio: false })).toBe("unsupported_value messages[0].content[0]");
    }
    expect(check({ messages: [{ role: Role.USER, content: [sound] }] }, { audio: true })).toBe("accepted");
  });

  it("tool_choice defaults to auto with tools and to none without (TOOL-2, TOOL-3)", () => {
    expect(offered({ tools })).toMatchObject({ names: ["f", "g"], toolChoice: { mode: "auto" } });
    expect(offered({})).toMatchObject({ names: [], toolChoice: { mode: "none" } });
  });

  it("with tool_choice none no tool reaches the engine (TOOL-4)", () => {
    const toolChoice = { choice: { case: "mode" as const, value: ToolChoice_Mode.NONE } };
    expect(offered({ tools, toolChoice })).toMatchObject({ names: [], toolChoice: { mode: "none" } });
  });

  it("tool_choice required offers all tools, a named function only itself (TOOL-5)", () => {
    const required = { choice: { case: "mode" as const, value: ToolChoice_Mode.REQUIRED } };
    expect(offered({ tools, toolChoice: required })).toMatchObject({
      names: ["f", "g"],
      toolChoice: { mode: "required" },
    });
    const named = { choice: { case: "function" as const, value: "g" } };
    expect(offered({ tools, toolChoice: named })).toMatchObject({
      names: ["g"],
      toolChoice: { mode: "named", name: "g" },
    });
  });

  it("allowed_tools offers only the listed tools (TOOL-6)", () => {
    const value = { mode: ToolChoice_Mode.REQUIRED, names: ["g"] };
    expect(offered({ tools, toolChoice: { choice: { case: "allowed", value } } })).toMatchObject({
      names: ["g"],
      toolChoice: { mode: "required" },
    });
  });

  it("parallel calls are allowed unless the request or the model excludes them (TOOL-9)", () => {
    expect(offered({ tools }).parallelToolCalls).toBe(true);
    expect(offered({ tools, parallelToolCalls: false }).parallelToolCalls).toBe(false);
    const { input } = build({ tools }, { parallelTools: false });
    expect("messages" in input && input.parallelToolCalls).toBe(false);
  });

  it("tools need a model that supports them (ERR-8)", () => {
    expect(check({ tools }, { tools: "none" })).toBe("unsupported_parameter tools");
    const none = { choice: { case: "mode" as const, value: ToolChoice_Mode.NONE } };
    expect(check({ tools, toolChoice: none }, { tools: "none" })).toBe("accepted");
  });

  it("a model that calls tools only when forced gets none with auto (TOOL-3)", () => {
    const forcedOnly = { tools: "forced-only" } as const;
    const { input } = build({ tools }, forcedOnly);
    expect(input).toMatchObject({ tools: [], toolChoice: { mode: "none" } });
    const required = { choice: { case: "mode" as const, value: ToolChoice_Mode.REQUIRED } };
    expect(build({ tools, toolChoice: required }, forcedOnly).input).toMatchObject({
      toolChoice: { mode: "required" },
    });
  });

  it("strict tools need a model with grammars (TOOL-14)", () => {
    const strict = [{ function: { name: "f" } }, { function: { name: "g", strict: true } }];
    expect(check({ tools: strict }, { grammar: false })).toBe("unsupported_parameter tools[1].function.strict");
    expect(check({ tools: strict }, {})).toBe("accepted");
  });

  it("JSON formats reach the engine; the format text is left out (RF-1, RF-2)", () => {
    expect(build({ responseFormat: { format: { case: "text", value: {} } } })).not.toHaveProperty("format");
    expect(build({ responseFormat: { format: { case: "jsonObject", value: {} } } }).format).toEqual({
      type: "json_object",
    });
    const value = { name: "r", schemaJson: '{"type":"object"}', strict: true };
    expect(build({ responseFormat: { format: { case: "jsonSchema", value } } }).format).toEqual({
      type: "json_schema",
      ...value,
    });
  });

  it("a model without JSON output rejects a JSON format (RF-1)", () => {
    const responseFormat = { format: { case: "jsonObject" as const, value: {} } };
    expect(check({ responseFormat }, { jsonObject: false })).toBe("unsupported_value response_format");
    const schema = { format: { case: "jsonSchema" as const, value: { name: "n", schemaJson: "{}" } } };
    expect(check({ responseFormat: schema }, { jsonSchema: "none" })).toBe("unsupported_value response_format");
  });

  it("a model that cannot be forced to call tools rejects a forced call", () => {
    const forced = [ToolChoice_Mode.REQUIRED, null].map((mode) => ({
      choice: mode === null ? { case: "function" as const, value: "f" } : { case: "mode" as const, value: mode },
    }));
    for (const toolChoice of forced) {
      expect(check({ tools, toolChoice }, { toolChoice: false })).toBe("unsupported_value tool_choice");
    }
    expect(check({ tools }, { toolChoice: false })).toBe("accepted");
  });

  it("a rejection names the field and the model (ERR-2)", () => {
    const error = refusal(() => build({ tools }, { tools: "none" }));
    expect(error?.message).toContain("'tools'");
    expect(error?.message).toContain("'m'");
  });
});
