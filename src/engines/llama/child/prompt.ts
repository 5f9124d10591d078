import { EngineError } from "../../../domain/engine/engine.js";
import { contextOverflow } from "../../../domain/engine/engine-error.js";
import type { ChatTemplate } from "../chat/chat-template.js";
import type { OutputPlan } from "../chat/output-plan.js";
import { type PromptPiece, promptPieces } from "../chat/prompt-pieces.js";
import type { ChildInput } from "../protocol/protocol.js";
import { fewestTokens } from "../protocol/protocol.js";
import type { NativeModel } from "./native-model.js";
import type { SlicedTokenizer } from "./text-slices.js";

export interface Prompt {
  readonly tokens: readonly number[];
  /** The field that it came from, for errors about it. */
  readonly param: "messages" | "prompt";
}

export interface PromptDeps {
  readonly model: NativeModel;
  readonly tokenizer: SlicedTokenizer;
  readonly template: ChatTemplate;
  readonly limits: { readonly contextLength: number; readonly longestTokenBytes: number };
}

/**
 * The tokens that the model goes on from, one at least. Throws EngineError: `bad_input`, `context_overflow` for a
 * text that is too long whatever its tokens are, what the template throws, and what `check` throws, which is called
 * between the slices of a long text.
 */
export async function toPrompt(
  { model, tokenizer, template, limits }: PromptDeps,
  input: ChildInput,
  plan: OutputPlan,
  check: () => void,
): Promise<Prompt> {
  const tokenized = async (pieces: readonly PromptPiece[], param: Prompt["param"]): Promise<Prompt> => {
    const promptTokens = fewestTokens(texts(pieces), limits.longestTokenBytes);
    if (promptTokens > limits.contextLength + 1) {
      const { contextLength } = limits;
      throw contextOverflow({ contextLength, promptTokens, isAtLeast: true, maxTokens: null, param });
    }
    const tokens: number[] = [];
    for (const [place, { text, control }] of pieces.entries()) {
      const ofPiece = await tokenizer.tokenize(text, { control, continued: place > 0 }, check);
      for (const token of ofPiece) tokens.push(token);
    }
    return { tokens: withBegin(model, tokens, param), param };
  };
  switch (input.type) {
    case "chat":
      return tokenized(promptPieces(template, input, plan, model.vocabulary.controlTexts), "messages");
    case "text":
      return tokenized([{ text: input.text, control: false }], "prompt");
    case "tokens":
      checkTokenIds(input.tokens, model.vocabulary.size, "prompt");
      return { tokens: input.tokens.length === 0 ? withBegin(model, [], "prompt") : input.tokens, param: "prompt" };
  }
}

function* texts(pieces: readonly PromptPiece[]): Generator<string, void, undefined> {
  for (const { text } of pieces) yield text;
}

/** The token that begins a text, where the model was trained with one or where there is nothing else to go on from. */
function withBegin({ vocabulary }: NativeModel, tokens: readonly number[], param: string): readonly number[] {
  const { begin } = vocabulary;
  if (begin !== null && (tokens.length === 0 || (begin.always && tokens[0] !== begin.token))) {
    return [begin.token, ...tokens];
  }
  if (tokens.length > 0) return tokens;
  const message = "The prompt is empty, and this model has no token that begins a text. Give it at least one word.";
  throw new EngineError("bad_input", message, { param });
}

/** Refuses ids that are not in the vocabulary: the native code would end the process over one. */
export function checkTokenIds(tokens: readonly number[], vocabSize: number, param: string): void {
  const strange = tokens.find((token) => !Number.isInteger(token) || token < 0 || token >= vocabSize);
  if (strange === undefined) return;
  throw new EngineError(
    "bad_input",
    `The token ids in '${param}' must be from 0 to ${vocabSize - 1} for this model, but one is ${strange}.`,
    { param },
  );
}
