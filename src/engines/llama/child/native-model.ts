/**
 * A model as the native code runs it: all that the rest of the child knows of it. Token ids must be checked before they
 * come here, because the native code ends the process over one outside of the vocabulary.
 */
export interface NativeModel {
  readonly bindingVersion: string;
  readonly architecture: string;
  /** False for encoders, which only compute embeddings. */
  readonly generates: boolean;
  /** Tokens that it was trained with at most. */
  readonly trainContextLength: number;
  readonly embeddingDims: number;
  readonly vocabulary: NativeVocabulary;
  readonly chatTemplate: string | null;
  tokenize(text: string, options?: TokenizeOptions): readonly number[];
  /**
   * Tokens that control the conversation have no text, except for the markers of thoughts and calls. `before`: tokens that the text follows; where one stands, some vocabularies write a space, others do not.
   */
  detokenize(tokens: readonly number[], before?: readonly number[]): string;
  /** Whether the token ends an answer. */
  isEnd(token: number): boolean;
  /** Compiles GBNF; throws where the parser refuses it. */
  parseGrammar(gbnf: string): NativeGrammar;
  openSequences(options: ContextOptions & { readonly sequences: number }): Promise<readonly NativeSequence[]>;
  openEncoder(options: ContextOptions): Promise<NativeEncoder>;
}

export interface NativeVocabulary {
  /** How its tokens spell bytes: `gpt2`, `llama` or others. */
  readonly family: string;
  readonly size: number;
  /** As the file spells them, by id. */
  readonly tokens: readonly string[];
  /** Texts of tokens that control the conversation and that no user may write. */
  readonly controlTexts: readonly string[];
  /** Tokens that `detokenize` gives no text for. */
  readonly hidden: ReadonlySet<number>;
  readonly begin: { readonly token: number; readonly text: string; readonly always: boolean } | null;
  readonly endText: string;
}

export interface TokenizeOptions {
  /** Whether texts of control tokens become those tokens. Default false. */
  readonly control?: boolean;
  /** Whether other text comes before it. Default false. */
  readonly continued?: boolean;
}

export interface ContextOptions {
  /** Tokens. */
  readonly contextLength: number;
  /** Tokens of one native call at most, of all sequences together. */
  readonly batchTokens: number;
  readonly threads: number;
}

/** A compiled grammar of one model. */
export interface NativeGrammar {
  readonly gbnf: string;
}

/** The memory of one conversation. One call at a time. */
export interface NativeSequence {
  /** Tokens that were evaluated. */
  readonly tokens: readonly number[];
  /** False where the model's kind of memory cannot be cut back to a prefix. */
  readonly keepsPrefixes: boolean;
  /** Forgets all but the first tokens. */
  cutTo(tokens: number): Promise<void>;
  evaluate(tokens: readonly number[]): Promise<void>;
  /** Evaluates the tokens, then makes new ones, one for each `next`. At least one token. */
  decode(tokens: readonly number[], sampling: NativeSampling): NativeDecoder;
}

/** How tokens are chosen. Nothing is left to the binding's defaults, which are not those of the wire. */
export interface NativeSampling {
  /** 0: always the most likely token. */
  readonly temperature: number;
  /** 0: all. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  /** 32 bits. */
  readonly seed: number;
  /** Whether tokens come with the probabilities of those that they were chosen from. */
  readonly probabilities: boolean;
  /** Added to the logits, by token. */
  readonly logitBias: ReadonlyMap<number, number>;
  /**
   * The tokens that must not follow, whatever their bias, as they are when the next one is chosen; null: none. Sets are
   * told apart by identity.
   */
  readonly banned: (() => ReadonlySet<number>) | null;
  readonly penalties: NativePenalties | null;
  readonly grammar: NativeGrammar | null;
}

export interface NativePenalties {
  /** 1: none. */
  readonly repetition: number;
  readonly frequency: number;
  readonly presence: number;
  /** Tokens that count, at most. Must stay the same for one answer. */
  readonly tokensMax: number;
  /** The tokens that count, as they are when the next one is chosen. */
  tokens(): readonly number[];
}

export interface NativeDecoder {
  /** Makes a token. `instead`: what shall follow in place of the token that was made last. */
  next(instead?: number): Promise<DecodedToken>;
  close(): Promise<void>;
}

export interface DecodedToken {
  readonly token: number;
  /** By token, the most likely first, after all samplers; null unless asked for. */
  readonly probabilities: ReadonlyMap<number, number> | null;
}

/** Computes embeddings, one at a time. */
export interface NativeEncoder {
  /** Tokens that are evaluated for this input, those included that the model puts around it. */
  countTokens(tokens: readonly number[]): number;
  /** As the model gives it, not normalised. */
  encode(tokens: readonly number[]): Promise<readonly number[]>;
}
