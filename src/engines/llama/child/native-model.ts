import type { LlamaGrammar } from "node-llama-cpp";

/** Types of the native code, as the rest of the child uses it. */

export interface NativeVocabulary {
  /** Family of the tokenizer, which decides how tokens spell bytes: `gpt2`, `llama` or others. */
  readonly family: string;
  readonly size: number;
  /** Spelling of each token in the file, by token id. */
  readonly tokens: readonly string[];
  /** Texts of tokens that control the conversation; users must not write these tokens. */
  readonly controlTexts: readonly string[];
  /** Tokens without text. */
  readonly hidden: ReadonlySet<number>;
  readonly begin: { readonly token: number; readonly text: string; readonly always: boolean } | null;
  readonly endText: string;
}

export interface TokenizeOptions {
  /** Whether texts of control tokens become those tokens. Default false. */
  readonly control?: boolean;
  /** Whether the text follows other text. Default false. */
  readonly continued?: boolean;
}

export interface ContextOptions {
  /** Context length in tokens. */
  readonly contextLength: number;
  /** Maximum tokens of one native call, summed over all sequences. */
  readonly batchTokens: number;
  readonly threads: number;
}

/** A compiled grammar of one model; opaque. */
export type NativeGrammar = LlamaGrammar;

/** The evaluated tokens of one conversation (KV cache). Serves one call at a time. */
export interface NativeSequence {
  /** Evaluated tokens. */
  readonly tokens: readonly number[];
  /** False if the model's kind of memory cannot be cut back to a prefix. */
  readonly keepsPrefixes: boolean;
  /** Removes all but the first tokens. */
  cutTo(tokens: number): Promise<void>;
  evaluate(tokens: readonly number[]): Promise<void>;
  /**
   * Evaluates tokens and returns, for each of them, log probabilities of the following position: that of the token in `next`
   * at the same index, and those of the `top` most likely tokens. Over the whole vocabulary, before all samplers. Only one
   * sequence of a context at a time.
   */
  score(tokens: readonly number[], next: readonly number[], top: number): Promise<readonly PositionScore[]>;
  /** Evaluates the tokens, at least one, then generates one token for each `next`. */
  decode(tokens: readonly number[], sampling: NativeSampling): NativeDecoder;
}

/** Log probabilities at one position. */
export interface PositionScore {
  /** Log probability of the given token; negative infinity: impossible. */
  readonly logprob: number;
  /** The most likely tokens, most likely first. */
  readonly top: readonly (readonly [token: number, logprob: number])[];
}

/** How tokens are chosen. All fields are set, because the binding's defaults differ from those of the API. */
export interface NativeSampling {
  /** Sampling temperature; 0: always the most likely token. */
  readonly temperature: number;
  /** Number of candidates; 0: the whole vocabulary. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  /** An unsigned 32-bit number. */
  readonly seed: number;
  /** Whether tokens come with the probabilities of their candidates. */
  readonly probabilities: boolean;
  /** Added to the logits, by token. */
  readonly logitBias: ReadonlyMap<number, number>;
  /** Returns the tokens that must not follow now, whatever their bias; null: none. Equal sets must be the same object. */
  readonly banned: (() => ReadonlySet<number>) | null;
  readonly penalties: NativePenalties | null;
  readonly grammar: NativeGrammar | null;
}

export interface NativePenalties {
  /** Repetition penalty; 1: none. */
  readonly repetition: number;
  readonly frequency: number;
  readonly presence: number;
  /** Maximum number of tokens that are penalized. Must stay the same for one answer. */
  readonly tokensMax: number;
  /** Returns the tokens that are penalized as the next token. */
  tokens(): readonly number[];
}

export interface NativeDecoder {
  /** Generates a token. `instead` replaces the token that was generated last. */
  next(instead?: number): Promise<DecodedToken>;
  close(): Promise<void>;
}

export interface DecodedToken {
  readonly token: number;
  /** Probabilities by token, most likely first, after all samplers; null unless requested. */
  readonly probabilities: ReadonlyMap<number, number> | null;
}

/** Computes embeddings, one at a time. */
export interface NativeEncoder {
  /** Tokens that are evaluated for this input, including those that the model adds around it. */
  countTokens(tokens: readonly number[]): number;
  /** The vector, not normalized. */
  encode(tokens: readonly number[]): Promise<readonly number[]>;
}
