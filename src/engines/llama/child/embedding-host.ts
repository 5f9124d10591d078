import { EngineError } from "../../../domain/engine/engine.js";
import { inputOverflow } from "../../../domain/engine/engine-error.js";
import { controlTextsOf } from "../chat/prompt-pieces.js";
import { abortedError, type ChildEmbed, type ChildModel } from "../protocol/protocol.js";
import type { NativeModel } from "./native.js";
import type { NativeEncoder } from "./native-model.js";
import { checkTokenIds, SlicedTokenizer } from "./prompt.js";
import { TokenSpelling } from "./token-spelling.js";

/**
 * Computes embeddings on as many contexts as there are threads, each of which serves one input at a time: the binding
 * returns the vector of only one sequence of a batch.
 */
export class EmbeddingHost {
  /** Number of running calls. */
  slotsBusy = 0;
  readonly contextLength: number;
  readonly longestTokenBytes: number;
  readonly #model: NativeModel;
  readonly #tokenizer: SlicedTokenizer;
  readonly #slots: number;
  readonly #encoders: readonly NativeEncoder[];
  readonly #free: NativeEncoder[];
  readonly #waiting: ((encoder: NativeEncoder) => void)[] = [];

  static async open(model: NativeModel, { contextLength, slots, threads }: ChildModel): Promise<EmbeddingHost> {
    const length = Math.min(contextLength, model.trainContextLength);
    // An encoder evaluates its input in one batch, and the binding requires one position more than the input has tokens.
    const positions = length + 1;
    // Encoders share the threads: threads of one input wait for each other by spinning, which blocks their cores.
    const count = Math.min(slots, threads);
    const options = {
      contextLength: positions,
      batchTokens: positions,
      threads: Math.max(1, Math.floor(threads / count)),
    };
    const encoders: NativeEncoder[] = [];
    while (encoders.length < count) encoders.push(await model.openEncoder(options));
    return new EmbeddingHost(model, length, slots, encoders);
  }

  private constructor(model: NativeModel, contextLength: number, slots: number, encoders: readonly NativeEncoder[]) {
    this.#model = model;
    this.#tokenizer = new SlicedTokenizer(model, controlTextsOf([]));
    this.longestTokenBytes = new TokenSpelling(model.vocabulary, () => "").longestBytes;
    this.contextLength = contextLength;
    this.#slots = slots;
    this.#encoders = encoders;
    this.#free = [...encoders];
  }

  /** Joined vectors of length one, in input order (EMB-9). Throws EngineError. */
  async embed(
    { inputs }: ChildEmbed,
    signal: AbortSignal,
  ): Promise<{ readonly vectors: Float32Array; readonly promptTokens: number }> {
    if (this.slotsBusy >= this.#slots) throw new EngineError("overloaded", "all slots are busy", { retryable: true });
    this.slotsBusy++;
    try {
      const tokenized: Input[] = [];
      for (const [index, input] of inputs.entries()) tokenized.push(await this.#tokenize(input, index, signal));
      const promptTokens = tokenized.reduce((sum, input) => sum + input.evaluatedTokens, 0);
      return { vectors: await this.#embedAll(tokenized, signal), promptTokens };
    } finally {
      this.slotsBusy--;
    }
  }

  async #embedAll(inputs: readonly Input[], signal: AbortSignal): Promise<Float32Array> {
    const { embeddingDims } = this.#model;
    const vectors = new Float32Array(inputs.length * embeddingDims);
    let usedTokens = 0;
    const left = each(inputs);
    const work = async (): Promise<void> => {
      for (const [index, { tokens, evaluatedTokens }] of left) {
        if (signal.aborted) return;
        vectors.set(normalized(await this.#encode(tokens)), index * embeddingDims);
        usedTokens += evaluatedTokens;
      }
    };
    await Promise.all(this.#encoders.map(work));
    if (signal.aborted) throw abortedError(signal, { promptTokens: usedTokens, outTokens: 0, cachedTokens: 0 });
    return vectors;
  }

  async #tokenize(input: string | readonly number[], index: number, signal: AbortSignal): Promise<Input> {
    const param = `input[${index}]`;
    if (typeof input !== "string") checkTokenIds(input, this.#model.vocabulary.size, param);
    const check = (): void => {
      if (signal.aborted) throw abortedError(signal);
    };
    const tokens = typeof input === "string" ? await this.#tokenizer.tokenize(input, {}, check) : input;
    if (tokens.length === 0) {
      throw new EngineError("bad_input", `'${param}' has no text that this model can read. Omit it.`, { param });
    }
    const { contextLength } = this;
    const inputTokens = this.#encoders[0]?.countTokens(tokens) ?? 0;
    if (inputTokens > contextLength) throw inputOverflow({ contextLength, param: `input[${index}]`, inputTokens });
    return { tokens, evaluatedTokens: inputTokens };
  }

  /** Encodes one input. Inputs wait for an encoder in order of arrival; a call has only a few waiting inputs at a time. */
  async #encode(tokens: readonly number[]): Promise<readonly number[]> {
    const encoder = this.#free.pop() ?? (await new Promise<NativeEncoder>((resolve) => this.#waiting.push(resolve)));
    try {
      return await encoder.encode(tokens);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free.push(encoder);
      else next(encoder);
    }
  }
}

interface Input {
  readonly tokens: readonly number[];
  /** Number of tokens that are evaluated, including those that the model adds around the input. */
  readonly evaluatedTokens: number;
}

/** An iterator that several loops share: each loop gets other entries, and when one loop ends early, all others end as well. */
function* each<T>(items: readonly T[]): Generator<[index: number, item: T], void, undefined> {
  yield* items.entries();
}

function normalized(vector: readonly number[]): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, number) => sum + number * number, 0));
  if (!Number.isFinite(length) || length === 0) {
    throw new EngineError("internal", "the model computed a vector that cannot be normalized");
  }
  return Float32Array.from(vector, (number) => number / length);
}
