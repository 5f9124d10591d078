import { readFileSync } from "node:fs";
import type { ChatTemplate } from "../../../../../src/engines/llama/chat/chat-template.js";

type Input = Parameters<ChatTemplate["render"]>[0];

/** A template with tools, calls and thoughts in the form of the Hermes and Qwen families, in our own words. */
export const hermesTemplate = readFileSync(new URL("hermes.jinja", import.meta.url), "utf8");

/** A plain ChatML template with a default system line, as small models have. */
export const smallTemplate = [
  "{% for message in messages %}",
  "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are a small model.<|im_end|>\\n' }}{% endif %}",
  "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}",
  "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
].join("");

/** A template that requires alternating user and assistant messages and supports no system messages. */
export const turnsTemplate = [
  "{{ bos_token }}{% for m in messages %}",
  "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}",
  "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must take turns') }}{% endif %}",
  "{{ '[' + m.role + ']' + (m.content | trim) + eos_token }}{% endfor %}",
].join("");

export const special = { bos: "<s>", eos: "</s>" };
export const controlTexts = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>"];

export function said(...messages: Input["messages"]): Input {
  return { messages, tools: [], variables: {} };
}

export const weatherTool = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a place.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    strict: false,
  },
} as const;
