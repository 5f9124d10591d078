import { EngineError } from "../../../domain/engine/engine.js";
import { inputOverflow } from "../../../domain/engine/engine-error.js";
import { controlTextsOf } from "../chat/control-marks.js";
import type { ChildEmbed, ChildModel } from "../protocol/protocol.js";
import { abortedError } from "../protocol/protocol.js";
import type { NativeEncoder, NativeModel } from "./native-model.js";
import { checkTokenIds } from "./prompt.js";
import { SlicedTokenizer } from "./text-slices.js";
import { TokenSpelling } from "./token-spelling.js";

export interface Embedded {
  readonly vectors: Float32Array;
  readonly promptTokens: number;
}

/**
 * Computes embeddings on as many contexts as there are threads, each of which serves one input at a time: the binding
 * gives the vector of one sequence of a batch only.
 */
export class EmbeddingHost {
  readonly contextLength: number;
  readonly longestTokenBytes: number;
  readonly #model: NativeModel;
  readonly #tokenizer: SlicedTokenizer;
  readonly #slots: number;
  readonly #encoders: number;
  readonly #free: NativeEncoder[];
  readonly #measure: NativeEncoder;
  readonly #waiting: ((encoder: NativeEncoder) => void)[] = [];
  #calls = 0;

  static async open(model: NativeModel, spec: ChildModel): Promise<EmbeddingHost> {
    const contextLength = Math.min(spec.contextLength, model.trainContextLength);
    const encoders: NativeEncoder[] = [];
    // An encoder has to see its input at once, and the binding wants one place more than the input takes.
    const places = contextLength + 1;
    // Encoders share the threads: threads of one input wait for each other by spinning, which costs others their core.
    const count = Math.min(spec.slots, spec.threads);
    const threads = Math.max(1, Math.floor(spec.threads / count));
    for (let i = 0; i < count; i++) {
      encoders.push(await model.openEncoder({ contextLength: places, batchTokens: places, threads }));
    }
    return new EmbeddingHost(model, { contextLength, slots: spec.slots }, encoders);
  }

  private constructor(
    model: NativeModel,
    { contextLength, slots }: { readonly contextLength: number; readonly slots: number },
    encoders: NativeEncoder[],
  ) {
    const [first] = encoders;
    if (first === undefined) throw new Error("an embedding model needs a context");
    this.#model = model;
    this.#tokenizer = new SlicedTokenizer(model, controlTextsOf([]));
    this.longestTokenBytes = new TokenSpelling(model.vocabulary, () => "").longestBytes;
    this.contextLength = contextLength;
    this.#slots = slots;
    this.#encoders = encoders.length;
    this.#measure = first;
    this.#free = encoders;
  }

  /** Calls that run. */
  get slotsBusy(): number {
    return this.#calls;
  }

  /** Vectors of length one (EMB-9). Throws EngineError. */
  async embed({ inputs }: ChildEmbed, signal: AbortSignal): Promise<Embedded> {
    if (this.#calls >= this.#slots) throw new EngineError("overloaded", "all slots are busy", { retryable: true });
    this.#calls++;
    try {
      return await this.#embed(inputs, signal);
    } finally {
      this.#calls--;
    }
  }

  async #embed(inputs: ChildEmbed["inputs"], signal: AbortSignal): Promise<Embedded> {
    const { tokenized, promptTokens } = await this.#tokenize(inputs, signal);
    const { embeddingDims } = this.#model;
    const vectors = new Float32Array(inputs.length * embeddingDims);
    let usedTokens = 0;
    const left = each(tokenized);
    const work = async (): Promise<void> => {
      for (const [index, tokens] of left) {
        if (signal.aborted) return;
        vectors.set(normalized(await this.#encode(tokens)), index * embeddingDims);
        usedTokens += this.#measure.countTokens(tokens);
      }
    };
    await Promise.all(Array.from({ length: this.#encoders }, work));
    if (signal.aborted) throw abortedError(signal, { promptTokens: usedTokens, outTokens: 0, cachedTokens: 0 });
    return { vectors, promptTokens };
  }

  async #tokenize(
    inputs: ChildEmbed["inputs"],
    signal: AbortSignal,
  ): Promise<{ readonly tokenized: readonly (readonly number[])[]; readonly promptTokens: number }> {
    const tokenized: (readonly number[])[] = [];
    let promptTokens = 0;
    for (const [index, input] of inputs.entries()) {
      const tokens = await this.#tokensOf(input, index, signal);
      tokenized.push(tokens);
      promptTokens += this.#measure.countTokens(tokens);
    }
    return { tokenized, promptTokens };
  }

  async #tokensOf(input: string | readonly number[], index: number, signal: AbortSignal): Promise<readonly number[]> {
    const param = `input[${index}]`;
    if (typeof input !== "string") checkTokenIds(input, this.#model.vocabulary.size, param);
    const check = (): void => {
      if (signal.aborted) throw abortedError(signal);
    };
    const tokens = typeof input === "string" ? await this.#tokenizer.tokenize(input, {}, check) : input;
    if (tokens.length === 0) {
      throw new EngineError("bad_input", `'${param}' holds no text that this model knows. Leave it out.`, { param });
    }
    const inputTokens = this.#measure.countTokens(tokens);
    const { contextLength } = this;
    if (inputTokens > contextLength) throw inputOverflow({ contextLength, index, inputTokens });
    return tokens;
  }

  /** Waits for an encoder after those that asked before: a call has few in line, however many inputs it has. */
  async #encode(tokens: readonly number[]): Promise<readonly number[]> {
    const encoder = this.#free.pop() ?? (await new Promise<NativeEncoder>((resolve) => this.#waiting.push(resolve)));
    try {
      return await encoder.encode(tokens);
    } finally {
      this.#freeEncoder(encoder);
    }
  }

  #freeEncoder(encoder: NativeEncoder): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(encoder);
    else next(encoder);
  }
}

/** Shared by several loops: each item goes to one of them, and when one ends early there are none left for the others. */
function* each<T>(items: readonly T[]): Generator<[index: number, item: T], void, undefined> {
  yield* items.entries();
}

function normalized(vector: readonly number[]): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, number) => sum + number * number, 0));
  if (!Number.isFinite(length) || length === 0) {
    throw new EngineError("internal", "the model made no vector that can be normalised");
  }
  return Float32Array.from(vector, (number) => number / length);
}
