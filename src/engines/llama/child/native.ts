import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type * as Binding from "node-llama-cpp";
import { invariant } from "../../../domain/call/service-error.js";
import { thoughtsClosing, thoughtsOpening } from "../chat/output-reader.js";
import { hermesClosing, hermesOpening } from "../chat/tool-calls.js";
import type {
  ContextOptions,
  NativeDecoder,
  NativeEncoder,
  NativeGrammar,
  NativeModel,
  NativeSampling,
  NativeSequence,
  NativeVocabulary,
  TokenizeOptions,
} from "./native-model.js";

/** The only file that touches node-llama-cpp, and of that only its low-level calls. */

export interface OpenOptions {
  readonly path: string;
  readonly moduleDir: string | null;
  readonly gpu: "auto" | false;
  readonly threads: number;
  /** Share of the file that is loaded, 0 to 1. */
  onProgress(share: number): void;
  /** What the native code complains about. */
  onLog(line: string): void;
}

export async function openNativeModel(options: OpenOptions): Promise<NativeModel> {
  const binding = await importBinding(options.moduleDir);
  const llama = await binding.getLlama({
    build: "never",
    gpu: options.gpu,
    skipDownload: true,
    maxThreads: options.threads,
    logLevel: binding.LlamaLogLevel.error,
    logger: (_level, message) => options.onLog(message.trimEnd()),
    progressLogs: false,
  });
  const model = await llama.loadModel({ modelPath: options.path, onLoadProgress: options.onProgress });
  return new LoadedNativeModel(binding, llama, model, await binding.getModuleVersion());
}

function importBinding(moduleDir: string | null): Promise<typeof Binding> {
  if (moduleDir === null) return import("node-llama-cpp");
  return import(pathToFileURL(join(moduleDir, "node_modules", "node-llama-cpp", "dist", "index.js")).href);
}

class LoadedNativeModel implements NativeModel {
  readonly bindingVersion: string;
  readonly vocabulary: NativeVocabulary;
  readonly #binding: typeof Binding;
  readonly #llama: Binding.Llama;
  readonly #model: Binding.LlamaModel;
  readonly #spacesDependOnPlace: boolean;
  readonly #markers: ReadonlyMap<number, string>;

  constructor(binding: typeof Binding, llama: Binding.Llama, model: Binding.LlamaModel, bindingVersion: string) {
    this.#binding = binding;
    this.#llama = llama;
    this.#model = model;
    this.bindingVersion = bindingVersion;
    this.#markers = markersOf(model);
    this.vocabulary = vocabularyOf(model, this.#markers);
    this.#spacesDependOnPlace = model.vocabularyType === binding.LlamaVocabularyType.spm;
  }

  get architecture(): string {
    return this.#model.architecture;
  }

  get generates(): boolean {
    const { architectureMetadata, metadata } = this.#model.fileInfo;
    return (
      metadata.tokenizer !== undefined &&
      architectureMetadata.attention?.causal !== false &&
      !encoders.test(this.architecture)
    );
  }

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
    const trim = continued && this.#spacesDependOnPlace;
    return this.#model.tokenize(text, control, trim ? "trimLeadingSpace" : undefined);
  }

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
    return this.#model.detokenize(asTokens(tokens), false, this.#spacesDependOnPlace ? asTokens(before) : []);
  }

  isEnd(token: number): boolean {
    return this.#model.isEogToken(token as Binding.Token);
  }

  parseGrammar(gbnf: string): NativeGrammar {
    return new CompiledGrammar(gbnf, new this.#binding.LlamaGrammar(this.#llama, { grammar: gbnf }));
  }

  async openSequences(options: ContextOptions & { readonly sequences: number }): Promise<readonly NativeSequence[]> {
    const context = await this.#model.createContext({
      contextSize: options.contextLength,
      batchSize: options.batchTokens,
      sequences: options.sequences,
      threads: options.threads,
      failedCreationRemedy: false,
      // The calls of a turn have all asked for their step when what they have to do at once is done: no need to go round
      // the event loop for others.
      batching: { dispatchSchedule: (dispatch) => process.nextTick(dispatch) },
    });
    return Array.from({ length: options.sequences }, () => new Sequence(this.#binding, this.#model, context));
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

class CompiledGrammar implements NativeGrammar {
  readonly gbnf: string;
  readonly binding: Binding.LlamaGrammar;

  constructor(gbnf: string, binding: Binding.LlamaGrammar) {
    this.gbnf = gbnf;
    this.binding = binding;
  }
}

class Sequence implements NativeSequence {
  readonly keepsPrefixes: boolean;
  readonly #binding: typeof Binding;
  readonly #model: Binding.LlamaModel;
  readonly #sequence: Binding.LlamaContextSequence;

  constructor(binding: typeof Binding, model: Binding.LlamaModel, context: Binding.LlamaContext) {
    this.#binding = binding;
    this.#model = model;
    this.#sequence = context.getSequence({
      // By default the binding drops the beginning of a conversation that grows too long, and says nothing.
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

  decode(tokens: readonly number[], sampling: NativeSampling): NativeDecoder {
    const options = this.#evaluateOptions(sampling);
    const generator: AsyncGenerator<EvaluatedToken, void, Binding.Token | undefined> =
      this.#sequence.evaluateWithMetadata(asTokens(tokens), { probabilities: sampling.probabilities }, options);
    return {
      async next(instead) {
        const { value } = await generator.next(instead as Binding.Token | undefined);
        if (value === undefined) throw new Error("the native generator ended by itself");
        return { token: value.token, probabilities: value.probabilities ?? null };
      },
      async close() {
        await generator.return();
      },
    };
  }

  #evaluateOptions(all: NativeSampling): Binding.SequenceEvaluateOptions {
    const { grammar, logitBias, banned, penalties, ...sampling } = all;
    const tokenBias = banned === null ? this.#tokenBias(logitBias, noTokens) : this.#changingBias(logitBias, banned);
    return {
      ...sampling,
      yieldEogToken: true,
      ...(grammar === null ? {} : { grammarEvaluationState: this.#grammarState(grammar) }),
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

  #grammarState(grammar: NativeGrammar): Binding.LlamaGrammarEvaluationState {
    invariant(grammar instanceof CompiledGrammar, "grammars come from the model");
    return new this.#binding.LlamaGrammarEvaluationState({ model: this.#model, grammar: grammar.binding });
  }

  /** Asked for every token, so that what was made once is kept. */
  #changingBias(logitBias: ReadonlyMap<number, number>, banned: () => ReadonlySet<number>): () => Binding.TokenBias {
    const made = new Map<ReadonlySet<number>, Binding.TokenBias>();
    return () => {
      const tokens = banned();
      const bias = made.get(tokens) ?? this.#tokenBias(logitBias, tokens);
      made.set(tokens, bias);
      return bias;
    };
  }

  /** `set` ignores the tokens that end an answer, so all are written to where it keeps them. */
  #tokenBias(logitBias: ReadonlyMap<number, number>, banned: ReadonlySet<number>): Binding.TokenBias {
    const bias = this.#binding.TokenBias.for(this.#model);
    const { _biases: kept } = bias as unknown as { readonly _biases: Map<number, number> };
    for (const [token, logit] of logitBias) kept.set(token, logit);
    for (const token of banned) kept.set(token, Number.NEGATIVE_INFINITY);
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

/** Architectures whose files do not all say that they are encoders. */
const encoders = /bert|t5encoder|embedding/;
/** As GGUF files number them. */
const unknownTokenType = 2;
const controlTokenType = 3;
/** What comes before a token and can decide about a space, markers included, which have none. */
const contextTokens = 4;
const noTokens: ReadonlySet<number> = new Set();

/** What readers of answers look for. Some files have these texts as control tokens, others as ordinary ones. */
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

function vocabularyOf(model: Binding.LlamaModel, markers: ReadonlyMap<number, string>): NativeVocabulary {
  const { tokens } = model;
  const tokenizer = model.fileInfo.metadata.tokenizer?.ggml;
  const spelled = tokenizer?.tokens ?? [];
  const kinds = tokenizer?.token_type ?? [];
  const controlTexts = spelled.filter((_, id) => kinds[id] === controlTokenType);
  const hidden = [...spelled.keys()].filter((id) => {
    const isText = kinds[id] !== controlTokenType && kinds[id] !== unknownTokenType;
    return !isText && !markers.has(id);
  });
  return {
    family: tokenizer?.model ?? "unknown",
    size: spelled.length,
    tokens: spelled,
    controlTexts,
    hidden: new Set(hidden),
    begin:
      tokens.bos === null
        ? null
        : { token: tokens.bos, text: tokens.bosString ?? "", always: tokens.shouldPrependBosToken },
    endText: tokens.eosString ?? "",
  };
}
