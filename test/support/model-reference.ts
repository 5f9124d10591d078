import {
  getLlama,
  type Llama,
  type LlamaContextSequence,
  LlamaLogLevel,
  type LlamaModel,
  type Token,
} from "node-llama-cpp";

/** A message of a conversation. */
export interface Turn {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface ReferenceAnswer {
  /** Tokens of the answer, without the token that ends it. */
  readonly tokens: readonly number[];
  readonly text: string;
  /** Whether the model ended the answer, rather than a limit. */
  readonly hasEnded: boolean;
}

/** The text that the model's template puts before a conversation without a system message. */
const defaultSystem = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

/**
 * The real chat model, called directly through the binding: one sequence, one thread, and none of our code between
 * input and output tokens.
 */
export class ReferenceModel {
  readonly #llama: Llama;
  readonly #model: LlamaModel;
  readonly #sequence: LlamaContextSequence;

  static async open(file: string, contextLength: number): Promise<ReferenceModel> {
    const llama = await getLlama({
      build: "never",
      gpu: false,
      skipDownload: true,
      maxThreads: 1,
      logLevel: LlamaLogLevel.error,
      progressLogs: false,
    });
    const model = await llama.loadModel({ modelPath: file });
    const context = await model.createContext({ contextSize: contextLength, batchSize: 512, sequences: 1, threads: 1 });
    return new ReferenceModel(llama, model, context.getSequence());
  }

  private constructor(llama: Llama, model: LlamaModel, sequence: LlamaContextSequence) {
    this.#llama = llama;
    this.#model = model;
    this.#sequence = sequence;
  }

  /** The tokens of a conversation in the format of the model's template, which is written here as code. */
  chatTokens(turns: readonly Turn[]): readonly number[] {
    const [first] = turns;
    const all: readonly Turn[] =
      first?.role === "system" ? turns : [{ role: "system", content: defaultSystem }, ...turns];
    const written = all.map(({ role, content }) => `<|im_start|>${role}\n${content}<|im_end|>\n`).join("");
    return this.tokens(`${written}<|im_start|>assistant\n`, { control: true });
  }

  /** `control`: whether the texts of control tokens become those tokens. */
  tokens(text: string, { control }: { readonly control: boolean }): readonly number[] {
    return this.#model.tokenize(text, control);
  }

  /** The most likely answer to a prompt that is evaluated in these pieces, with an empty KV cache before. */
  async answer(pieces: readonly (readonly number[])[], tokensMax: number): Promise<ReferenceAnswer> {
    await this.#sequence.clearHistory();
    for (const piece of pieces.slice(0, -1)) {
      await this.#sequence.evaluateWithoutGeneratingNewTokens(piece as Token[]);
    }
    const tokens: Token[] = [];
    let hasEnded = false;
    const last = (pieces.at(-1) ?? []) as Token[];
    for await (const token of this.#sequence.evaluate(last, { temperature: 0, yieldEogToken: true })) {
      hasEnded = this.#model.isEogToken(token);
      if (!hasEnded) tokens.push(token);
      if (hasEnded || tokens.length === tokensMax) break;
    }
    return { tokens, text: this.#model.detokenize(tokens), hasEnded };
  }

  async close(): Promise<void> {
    await this.#llama.dispose();
  }
}
