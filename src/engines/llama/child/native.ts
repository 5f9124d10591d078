import type * as Binding from "node-llama-cpp";
import { thoughtsClosing, thoughtsOpening } from "../chat/output-reader.js";
import { hermesClosing, hermesOpening } from "../chat/tool-calls.js";
import type { ChildModel, Placement } from "../protocol/protocol.js";
import type {
  ContextOptions,
  NativeDecoder,
  NativeEncoder,
  NativeGrammar,
  NativeSampling,
  NativeSequence,
  NativeVocabulary,
  PositionScore,
  TokenizeOptions,
} from "./native-model.js";
import { PositionScorer } from "./native-scores.js";
import { loadWeights, type OpenBinding, openBinding } from "./open-binding.js";

/** Runs models with the low-level functions of node-llama-cpp. */

export interface OpenOptions {
  readonly model: ChildModel;
  /** Called with the loaded share of the file, 0 to 1. */
  onProgress(share: number): void;
  /** Called with each error line of the native code. */
  onLog(line: string): void;
}

export async function openNativeModel(options: OpenOptions): Promise<NativeModel> {
  const { model: spec, onProgress, onLog } = options;
  const open = await openBinding({ build: spec.build, threads: spec.threads, onLog });
  const { model, placement } = await loadWeights(open, spec, onProgress);
  return new NativeModel(open, model, await open.binding.getModuleVersion(), placement);
}

/**
 * A model as the native code runs it. Token ids must be checked before they are passed in, because the native code ends
 * the process for one outside of the vocabulary.
 */
export class NativeModel {
  readonly bindingVersion: string;
  readonly placement: Placement;
  readonly vocabulary: NativeVocabulary;
  readonly #binding: typeof Binding;
  readonly #llama: Binding.Llama;
  readonly #model: Binding.LlamaModel;
  readonly #spacesDependOnPosition: boolean;
  readonly #markers: ReadonlyMap<number, string>;

  constructor(
    { binding, llama }: OpenBinding,
    model: Binding.LlamaModel,
    bindingVersion: string,
    placement: Placement,
  ) {
    this.#binding = binding;
    this.#llama = llama;
    this.#model = model;
    this.bindingVersion = bindingVersion;
    this.placement = placement;
    this.#markers = markersOf(model);
    this.vocabulary = vocabularyOf(model, this.#markers);
    this.#spacesDependOnPosition = model.vocabularyType === binding.LlamaVocabularyType.spm;
  }

  get architecture(): string {
    return this.#model.architecture;
  }

  /** False for encoders, which only compute embeddings. */
  get generates(): boolean {
    const { architectureMetadata, metadata } = this.#model.fileInfo;
    const isCausal = architectureMetadata.attention?.causal !== false;
    return metadata.tokenizer !== undefined && isCausal && !encoders.test(this.architecture);
  }

  /** Length of the context that the model was trained with, in tokens. */
  get trainContextLength(): number {
    return this.#model.trainContextSize;
  }

  get embeddingDims(): number {
    return this.#model.embeddingVectorSize;
  }

  get chatTemplate(): string | null {
    return this.#model.fileInfo.metadata.tokenizer?.chat_template ?? null;
  }

  tokenize(text: string, { control = false, continued = false }: TokenizeOptions = {}): readonly number[] {
    const trim = continued && this.#spacesDependOnPosition;
    return this.#model.tokenize(text, control, trim ? "trimLeadingSpace" : undefined);
  }

  /**
   * Text of tokens. Control tokens have none, except for the markers of thoughts and calls. `before`: the tokens before
   * them, on which a leading space depends in some vocabularies.
   */
  detokenize(tokens: readonly number[], before: readonly number[] = []): string {
    const textFrom = (from: number, to: number): string =>
      this.#textOf(tokens.slice(from, to), [...before, ...tokens.slice(Math.max(0, from - contextTokens), from)]);
    let text = "";
    let from = 0;
    for (const [at, token] of this.#markers.size === 0 ? [] : tokens.entries()) {
      const marker = this.#markers.get(token);
      if (marker === undefined) continue;
      text += textFrom(from, at) + marker;
      from = at + 1;
    }
    return text + textFrom(from, tokens.length);
  }

  #textOf(tokens: readonly number[], before: readonly number[]): string {
    return this.#model.detokenize(asTokens(tokens), false, this.#spacesDependOnPosition ? asTokens(before) : []);
  }

  /** Whether the token ends an answer. */
  isEnd(token: number): boolean {
    return this.#model.isEogToken(token as Binding.Token);
  }

  /** Compiles GBNF; throws if the parser rejects it. */
  parseGrammar(gbnf: string): NativeGrammar {
    return new this.#binding.LlamaGrammar(this.#llama, { grammar: gbnf });
  }

  async openSequences(options: ContextOptions & { readonly sequences: number }): Promise<readonly NativeSequence[]> {
    const context = await this.#model.createContext({
      contextSize: options.contextLength,
      batchSize: options.batchTokens,
      sequences: options.sequences,
      threads: options.threads,
      failedCreationRemedy: false,
      // The step batcher starts all steps of a batch together, so that no pass of the event loop is needed for others.
      batching: { dispatchSchedule: (dispatch) => process.nextTick(dispatch) },
    });
    const scorer = new PositionScorer(this.#model);
    return Array.from({ length: options.sequences }, () => new Sequence(this.#binding, this.#model, context, scorer));
  }

  async openEncoder(options: ContextOptions): Promise<NativeEncoder> {
    const context = await this.#model.createEmbeddingContext({
      contextSize: options.contextLength,
      batchSize: options.batchTokens,
      threads: options.threads,
    });
    return {
      countTokens: (tokens) => context.calculateInputLength(asTokens(tokens)),
      encode: async (tokens) => (await context.getEmbeddingFor(asTokens(tokens))).vector,
    };
  }
}

class Sequence implements NativeSequence {
  readonly keepsPrefixes: boolean;
  readonly #binding: typeof Binding;
  readonly #model: Binding.LlamaModel;
  readonly #sequence: Binding.LlamaContextSequence;
  readonly #scorer: PositionScorer;

  constructor(
    binding: typeof Binding,
    model: Binding.LlamaModel,
    context: Binding.LlamaContext,
    scorer: PositionScorer,
  ) {
    this.#binding = binding;
    this.#model = model;
    this.#scorer = scorer;
    this.#sequence = context.getSequence({
      // By default the binding silently drops the beginning of a conversation that is too long.
      contextShift: {
        size: 1,
        strategy: () => {
          throw new Error("the context is full");
        },
      },
      checkpoints: { max: 0, interval: false },
    });
    this.keepsPrefixes = !this.#sequence.needsCheckpoints;
  }

  get tokens(): readonly number[] {
    return this.#sequence.contextTokens;
  }

  cutTo(tokens: number): Promise<void> {
    return this.#sequence.eraseContextTokenRanges([{ start: tokens, end: this.#sequence.nextTokenIndex }]);
  }

  evaluate(tokens: readonly number[]): Promise<void> {
    return this.#sequence.evaluateWithoutGeneratingNewTokens(asTokens(tokens));
  }

  score(tokens: readonly number[], next: readonly number[], top: number): Promise<readonly PositionScore[]> {
    return this.#scorer.score(this.#sequence, tokens, next, top);
  }

  decode(tokens: readonly number[], sampling: NativeSampling): NativeDecoder {
    const options = this.#evaluateOptions(sampling);
    const generator: AsyncGenerator<EvaluatedToken, void, Binding.Token | undefined> =
      this.#sequence.evaluateWithMetadata(asTokens(tokens), { probabilities: sampling.probabilities }, options);
    return {
      async next(instead) {
        const { value } = await generator.next(instead as Binding.Token | undefined);
        if (value === undefined) throw new Error("the native generator has ended");
        return { token: value.token, probabilities: value.probabilities ?? null };
      },
      async close() {
        await generator.return();
      },
    };
  }

  #evaluateOptions(all: NativeSampling): Binding.SequenceEvaluateOptions {
    const { grammar, logitBias, banned, penalties, ...sampling } = all;
    const { LlamaGrammarEvaluationState } = this.#binding;
    const tokenBias = banned === null ? this.#tokenBias(logitBias, noTokens) : this.#changingBias(logitBias, banned);
    return {
      ...sampling,
      yieldEogToken: true,
      ...(grammar === null
        ? {}
        : { grammarEvaluationState: new LlamaGrammarEvaluationState({ model: this.#model, grammar }) }),
      ...(logitBias.size === 0 && banned === null ? {} : { tokenBias }),
      ...(penalties === null
        ? {}
        : {
            repeatPenalty: {
              penalty: penalties.repetition,
              frequencyPenalty: penalties.frequency,
              presencePenalty: penalties.presence,
              maxPunishTokens: penalties.tokensMax,
              punishTokens: () => asTokens(penalties.tokens()),
            },
          }),
    };
  }

  /** Called for every token, so the biases are cached by set. */
  #changingBias(logitBias: ReadonlyMap<number, number>, banned: () => ReadonlySet<number>): () => Binding.TokenBias {
    const cached = new Map<ReadonlySet<number>, Binding.TokenBias>();
    return () => {
      const tokens = banned();
      const bias = cached.get(tokens) ?? this.#tokenBias(logitBias, tokens);
      cached.set(tokens, bias);
      return bias;
    };
  }

  /** `set` ignores tokens that end an answer, so all are written to its private map. */
  #tokenBias(logitBias: ReadonlyMap<number, number>, banned: ReadonlySet<number>): Binding.TokenBias {
    const bias = this.#binding.TokenBias.for(this.#model);
    const { _biases: biases } = bias as unknown as { readonly _biases: Map<number, number> };
    for (const [token, logit] of logitBias) biases.set(token, logit);
    for (const token of banned) biases.set(token, Number.NEGATIVE_INFINITY);
    return bias;
  }
}

interface EvaluatedToken {
  readonly token: Binding.Token;
  readonly probabilities?: ReadonlyMap<Binding.Token, number>;
}

function asTokens(tokens: readonly number[]): Binding.Token[] {
  return tokens as Binding.Token[];
}

/** Names of encoder architectures: not all of their files declare it. */
const encoders = /bert|t5encoder|embedding/;
/** Token types of GGUF files. */
const unknownTokenType = 2;
const controlTokenType = 3;
/** Number of tokens before a text that can decide about its leading space, counting markers, which cannot. */
const contextTokens = 4;
const noTokens: ReadonlySet<number> = new Set();

/** Markers that the readers of answers look for. Some files have them as control tokens, others as ordinary ones. */
const markerTexts: ReadonlySet<string> = new Set([hermesOpening, hermesClosing, thoughtsOpening, thoughtsClosing]);

/** The markers that are control tokens, with their texts. */
function markersOf(model: Binding.LlamaModel): ReadonlyMap<number, string> {
  const tokenizer = model.fileInfo.metadata.tokenizer?.ggml;
  const markers = new Map<number, string>();
  for (const [id, text] of tokenizer?.tokens.entries() ?? []) {
    if (markerTexts.has(text) && tokenizer?.token_type?.[id] === controlTokenType) markers.set(id, text);
  }
  return markers;
}

function vocabularyOf(
  { tokens, fileInfo }: Binding.LlamaModel,
  markers: ReadonlyMap<number, string>,
): NativeVocabulary {
  const tokenizer = fileInfo.metadata.tokenizer?.ggml;
  const spelled = tokenizer?.tokens ?? [];
  const kinds = tokenizer?.token_type ?? [];
  const isHidden = (id: number): boolean =>
    (kinds[id] === controlTokenType || kinds[id] === unknownTokenType) && !markers.has(id);
  const begin = { text: tokens.bosString ?? "", always: tokens.shouldPrependBosToken };
  return {
    family: tokenizer?.model ?? "unknown",
    size: spelled.length,
    tokens: spelled,
    controlTexts: spelled.filter((_, id) => kinds[id] === controlTokenType),
    hidden: new Set([...spelled.keys()].filter(isHidden)),
    begin: tokens.bos === null ? null : { token: tokens.bos, ...begin },
    endText: tokens.eosString ?? "",
  };
}
