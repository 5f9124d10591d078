import type { Message } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { GenerateInput } from "../../domain/engine/engine.js";

/** Average UTF-8 bytes of a token, and average tokens that a chat template adds to a message. */
const bytesPerToken = 4;
const tokensPerMessage = 4;

/** Estimated prompt tokens, for servers that state no usage; never 0. */
export function estimatedPromptTokens(input: GenerateInput): number {
  if ("prompt" in input) return inputTokens(input.prompt);
  return input.messages.reduce((sum, message) => sum + tokensPerMessage + inputTokens(textOf(message)), 0);
}

type Inputs = readonly (string | readonly number[])[];

/** Estimated tokens of inputs that are embedded or ranked, for servers that state no usage; never 0. */
export function estimatedInputTokens(inputs: Inputs): number {
  return inputs.reduce((sum, input) => sum + inputTokens(input), 0);
}

function inputTokens(input: string | readonly number[]): number {
  return typeof input === "string" ? Math.max(1, Math.ceil(Buffer.byteLength(input) / bytesPerToken)) : input.length;
}

/** Index of the longest input, which is named in errors about the length: servers do not say which input is too long. */
export function longestInput(inputs: Inputs): number {
  const lengths = inputs.map(inputTokens);
  return Math.max(0, lengths.indexOf(Math.max(...lengths)));
}

/** The texts of a prompt, up to a number of characters. */
export function promptText(input: GenerateInput, charsMax: number): string {
  if ("prompt" in input) return typeof input.prompt === "string" ? input.prompt.slice(0, charsMax) : "";
  let text = "";
  for (const message of input.messages) {
    if (text.length >= charsMax) break;
    text += `${textOf(message)}\n`;
  }
  return text.slice(0, charsMax);
}

function textOf({ content }: Message): string {
  return content.map(({ part }) => (part.case === "text" || part.case === "refusal" ? part.value : "")).join("");
}
