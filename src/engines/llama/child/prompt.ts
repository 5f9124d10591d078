import { EngineError } from "../../../domain/engine/engine.js";
import { contextOverflow } from "../../../domain/engine/engine-error.js";
import type { ChatTemplate } from "../chat/chat-template.js";
import type { OutputPlan } from "../chat/output-plan.js";
import type { ControlTexts } from "../chat/prompt-pieces.js";
import { type PromptPiece, promptPieces } from "../chat/prompt-pieces.js";
import { type ChildInput, fewestTokens } from "../protocol/protocol.js";
import type { NativeModel } from "./native.js";
import type { NativeVocabulary, TokenizeOptions } from "./native-model.js";

export interface Prompt {
  readonly tokens: readonly number[];
  /** The request field that contains the prompt, for errors. */
  readonly param: "messages" | "prompt";
}

export interface PromptDeps {
  readonly vocabulary: NativeVocabulary;
  readonly tokenizer: SlicedTokenizer;
  readonly template: ChatTemplate;
  readonly contextLength: number;
  readonly longestTokenBytes: number;
}

/**
 * The tokens of a prompt, at least one. Throws EngineError: `bad_input`, `context_overflow` for a text that is too long
 * whatever its tokens are, the template's errors, and errors of `check`, which is called between slices of a long text.
 */
export async function toPrompt(
  { vocabulary, tokenizer, template, contextLength, longestTokenBytes }: PromptDeps,
  input: ChildInput,
  plan: OutputPlan,
  check: () => void,
): Promise<Prompt> {
  if (input.type === "tokens") {
    checkTokenIds(input.tokens, vocabulary.size, "prompt");
    return { tokens: input.tokens.length === 0 ? withBegin(vocabulary, [], "prompt") : input.tokens, param: "prompt" };
  }
  const isChat = input.type === "chat";
  const param = isChat ? "messages" : "prompt";
  const pieces: readonly PromptPiece[] = isChat
    ? promptPieces(template, input, plan, vocabulary.controlTexts)
    : [{ text: input.text, control: false }];
  const promptTokens = fewestTokens(
    pieces.map(({ text }) => text),
    longestTokenBytes,
  );
  if (promptTokens > contextLength + 1) {
    throw contextOverflow({ contextLength, promptTokens, isAtLeast: true, maxTokens: null, param });
  }
  const tokens: number[] = [];
  for (const [index, { text, control }] of pieces.entries()) {
    const ofPiece = await tokenizer.tokenize(text, { control, continued: index > 0 }, check);
    for (const token of ofPiece) tokens.push(token);
  }
  return { tokens: withBegin(vocabulary, tokens, param), param };
}

/** Adds the token that begins a text if the model was trained with one, or if there are no other tokens. */
function withBegin({ begin }: NativeVocabulary, tokens: readonly number[], param: string): readonly number[] {
  if (begin !== null && (tokens.length === 0 || (begin.always && tokens[0] !== begin.token))) {
    return [begin.token, ...tokens];
  }
  if (tokens.length > 0) return tokens;
  const message = "The prompt is empty, and this model has no token that begins a text. Give it at least one word.";
  throw new EngineError("bad_input", message, { param });
}

/** Rejects ids that are not in the vocabulary: the native code would end the process. Throws EngineError `bad_input`. */
export function checkTokenIds(tokens: readonly number[], vocabSize: number, param: string): void {
  const invalid = tokens.find((token) => !Number.isInteger(token) || token < 0 || token >= vocabSize);
  if (invalid === undefined) return;
  throw new EngineError(
    "bad_input",
    `The token ids in '${param}' must be from 0 to ${vocabSize - 1} for this model, but one is ${invalid}.`,
    { param },
  );
}

/** Characters tokenized in one pass of the event loop, summed over all calls: this takes a few milliseconds at most. */
const passChars = 8_192;
/** The end of a slice is searched in this many characters before its maximum length. */
const searchChars = 1_024;
/** Positions at which vocabularies always end a token: before the space of a word, or before punctuation. */
const cutPatterns = [/(?<=[\p{L}\p{N}.,;:!?)]) (?=\p{L})/gu, /(?<=[\p{L}\p{N}])["/_.:;,!?)\]}>=\n。，、！？；：]/gu];

/**
 * Tokenizes text in slices, so that decoding and heartbeats continue between them: the native tokenizer is synchronous.
 * Calls that tokenize at the same time alternate.
 */
export class SlicedTokenizer {
  readonly #model: Pick<NativeModel, "tokenize">;
  readonly #controlTexts: ControlTexts;
  readonly #waiting: { readonly chars: number; readonly start: () => void }[] = [];
  #charsOfPass = 0;
  #isScheduled = false;

  constructor(model: Pick<NativeModel, "tokenize">, controlTexts: ControlTexts) {
    this.#model = model;
    this.#controlTexts = controlTexts;
  }

  /** `check` is called before each slice and may throw. */
  async tokenize(text: string, options: TokenizeOptions, check: () => void): Promise<number[]> {
    const tokens: number[] = [];
    let continued = options.continued ?? false;
    for (const slice of this.#slices(text)) {
      if (this.#mustWait(slice.length)) await this.#nextPass(slice.length);
      check();
      for (const token of this.#model.tokenize(slice, { ...options, continued })) tokens.push(token);
      continued = true;
    }
    return tokens;
  }

  #mustWait(chars: number): boolean {
    this.#schedule();
    if (this.#waiting.length > 0 || this.#charsOfPass + chars > passChars) return true;
    this.#charsOfPass += chars;
    return false;
  }

  #nextPass(chars: number): Promise<void> {
    return new Promise((start) => {
      this.#waiting.push({ chars, start });
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#begin());
  }

  /** Starts the slices of one pass of the event loop; at least one slice must be waiting. */
  #begin(): void {
    this.#isScheduled = false;
    this.#charsOfPass = 0;
    if (this.#waiting.length > 0) this.#schedule();
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#charsOfPass > 0 && this.#charsOfPass + next.chars > passChars) return;
      this.#charsOfPass += next.chars;
      this.#waiting.shift();
      next.start();
    }
  }

  *#slices(text: string): Generator<string, void, undefined> {
    let from = 0;
    while (text.length - from > passChars) {
      const to = this.#cutBefore(text, from + passChars);
      yield text.slice(from, to);
      from = to;
    }
    if (from < text.length) yield text.slice(from);
  }

  /**
   * Position of a cut before `limit`. Without a preferred position, text is cut anywhere except inside a character or
   * control text.
   */
  #cutBefore(text: string, limit: number): number {
    const first = limit - searchChars;
    const window = text.slice(first, limit + 1);
    for (const pattern of cutPatterns) {
      const positions = [...window.matchAll(pattern)].map(({ index }) => first + index).reverse();
      const cut = positions.find((at) => at > first && !this.#isInControlText(text, at));
      if (cut !== undefined) return cut;
    }
    for (let at = limit; at > first; at--) {
      const splitsCharacter = (text.codePointAt(at - 1) ?? 0) > 0xffff;
      if (!splitsCharacter && !this.#isInControlText(text, at)) return at;
    }
    return limit;
  }

  #isInControlText(text: string, at: number): boolean {
    for (let start = Math.max(0, at - this.#controlTexts.longest + 1); start < at; start++) {
      if (start + this.#controlTexts.lengthAt(text, start) > at) return true;
    }
    return false;
  }
}
