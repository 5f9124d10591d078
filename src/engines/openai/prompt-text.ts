import type { Message } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { GenerateInput } from "../../domain/engine/engine.js";

/** UTF-8 bytes of a token on average, and tokens that a chat template adds to a message. */
const bytesPerToken = 4;
const tokensPerMessage = 4;

/** An estimate for answers whose server states no usage: never 0. */
export function estimatedPromptTokens(input: GenerateInput): number {
  if ("prompt" in input) return inputTokens(input.prompt);
  return input.messages.reduce((sum, message) => sum + tokensPerMessage + inputTokens(textOf(message)), 0);
}

type Inputs = readonly (string | readonly number[])[];

/** The same for inputs that are embedded or ranked. */
export function estimatedInputTokens(inputs: Inputs): number {
  return inputs.reduce((sum, input) => sum + inputTokens(input), 0);
}

function inputTokens(input: string | readonly number[]): number {
  return typeof input === "string" ? Math.max(1, Math.ceil(Buffer.byteLength(input) / bytesPerToken)) : input.length;
}

/** Index of the longest input: a server's error about the length of an input does not name it. */
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
