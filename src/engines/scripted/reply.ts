import { type Message, Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { GenerateInput, ToolChoiceSpec } from "../../domain/engine/engine.js";
import type { ScriptedCall } from "./choices.js";
import type { ScriptedOptions, ScriptedToolCall } from "./scripted-options.js";
import { countTokens, Script } from "./tokens.js";

/** What every choice of an answer says or calls. */
export type Reply =
  | { readonly type: "text"; readonly script: Script }
  | { readonly type: "calls"; readonly calls: readonly ScriptedCall[] };

/** Decides what a scripted model answers. What its options fix is prepared once, when the model is loaded. */
export class Replies {
  readonly #fixed: Script | null;
  readonly #tokens: number | null;
  readonly #calls: readonly ScriptedCall[];

  constructor(options: ScriptedOptions) {
    this.#tokens = options.tokens ?? null;
    this.#fixed = options.text === undefined ? null : new Script(options.text, this.#tokens);
    const calls = options.tool_calls ?? (options.tool_call === undefined ? [] : [options.tool_call]);
    this.#calls = calls.map((call) => ({ name: call.name, args: new Script(argumentsText(call), null) }));
  }

  to(input: GenerateInput): Reply {
    if ("messages" in input) {
      const calls = this.#callsFor(
        input.tools.map((tool) => tool.function?.name ?? ""),
        input.toolChoice,
      );
      if (calls.length > 0) return { type: "calls", calls: input.parallelToolCalls ? calls : calls.slice(0, 1) };
    }
    return { type: "text", script: this.#fixed ?? new Script(repeatedText(input), this.#tokens) };
  }

  #callsFor(offered: readonly string[], choice: ToolChoiceSpec): readonly ScriptedCall[] {
    const able = this.#calls.filter((call) => offered.includes(call.name));
    switch (choice.mode) {
      case "none":
        return [];
      case "auto":
        return able;
      case "required":
        return able.length > 0 ? able : offered.slice(0, 1).map(callWithoutArguments);
      case "named":
        return [able.find((call) => call.name === choice.name) ?? callWithoutArguments(choice.name)];
    }
  }
}

/** Tokens of a prompt: of all its text parts; roles, names and tools count nothing. */
export function promptTokensOf(input: GenerateInput): number {
  if ("messages" in input) return input.messages.reduce((sum, message) => sum + messageTokens(message), 0);
  return typeof input.prompt === "string" ? countTokens(input.prompt) : input.prompt.length;
}

/** The prompt as text; token ids are written as numbers. */
export function promptText(prompt: string | readonly number[]): string {
  return typeof prompt === "string" ? prompt : prompt.join(" ");
}

function messageTokens(message: Message): number {
  return message.content.reduce((sum, { part }) => sum + (part.case === "text" ? countTokens(part.value) : 0), 0);
}

function repeatedText(input: GenerateInput): string {
  if (!("messages" in input)) return promptText(input.prompt);
  const last = input.messages.findLast((message) => message.role === Role.USER);
  return last?.content.map(({ part }) => (part.case === "text" ? part.value : "")).join("") ?? "";
}

function callWithoutArguments(name: string): ScriptedCall {
  return { name, args: new Script("{}", null) };
}

function argumentsText(call: ScriptedToolCall): string {
  const given = call.arguments ?? {};
  const text = typeof given === "string" ? given : JSON.stringify(given);
  return text === "" ? "{}" : text;
}
