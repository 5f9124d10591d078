import { z } from "zod";
import { ModelFileError } from "../files/model-errors.js";

const size = z.number().int().min(1).max(1_000_000);

const configSchema = z.object({
  model_type: z.literal("bert"),
  hidden_act: z.literal("gelu"),
  num_hidden_layers: size.max(1_000),
  num_attention_heads: size.max(1_000),
  hidden_size: size,
  intermediate_size: size,
  max_position_embeddings: size,
  type_vocab_size: size,
  vocab_size: size,
  layer_norm_eps: z.number().positive().max(1),
});

/** The shape of a BERT encoder, as its config.json spells it. */
export type EncoderConfig = z.infer<typeof configSchema>;

/** Reads the text of a config.json. Throws ModelFileError when it is not that of a plain BERT encoder. */
export function parseEncoderConfig(text: string): EncoderConfig {
  const parsed = configSchema.safeParse(parseJson(text, "config.json"));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ModelFileError(
    "unsupported",
    `config.json: ${issue?.path.join(".")}: ${issue?.message}. Only plain BERT encoders are converted; for another model get a GGUF file`,
  );
}

const poolingSchema = z.object({
  pooling_mode_cls_token: z.boolean().default(false),
  pooling_mode_mean_tokens: z.boolean().default(false),
});

/**
 * How token vectors become the text's vector, from the text of a sentence encoder's pooling configuration; null (there
 * is none) means the usual mean.
 */
export function parsePooling(text: string | null): "mean" | "cls" {
  if (text === null) return "mean";
  const parsed = poolingSchema.safeParse(parseJson(text, "the pooling configuration"));
  if (parsed.success && parsed.data.pooling_mode_mean_tokens) return "mean";
  if (parsed.success && parsed.data.pooling_mode_cls_token) return "cls";
  throw new ModelFileError("unsupported", "the pooling of this encoder is neither the mean nor the first token");
}

function parseJson(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ModelFileError("malformed", `${name} is not JSON. Fetch it again`, { cause });
  }
}

/** How GGUF files number the kinds of tokens. */
const tokenKinds = { normal: 1, control: 3, unused: 5 } as const;

const controlTokens = new Set(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]);

const tokenizerSchema = z.object({ model: z.object({ vocab: z.record(z.string(), z.number().int().min(0)) }) });

/** The word pieces of a BERT tokenizer by id. */
export class Vocabulary {
  readonly #pieces: readonly string[];
  readonly #ids: ReadonlyMap<string, number>;

  /** Throws ModelFileError unless there are exactly `size` pieces, each of them once. */
  constructor(pieces: readonly string[], size: number) {
    this.#pieces = pieces;
    this.#ids = new Map(pieces.map((piece, id) => [piece, id]));
    if (pieces.length !== size || this.#ids.size !== size) {
      throw new ModelFileError(
        "malformed",
        `the vocabulary has ${this.#ids.size} different tokens, config.json says ${size}. Fetch both again`,
      );
    }
  }

  /** From the text of a vocab.txt: one piece a line, its id is its line. */
  static fromLines(text: string, size: number): Vocabulary {
    return new Vocabulary(text.replace(/\n$/, "").split("\n"), size);
  }

  /** From the text of a tokenizer.json. */
  static fromTokenizer(text: string, size: number): Vocabulary {
    const parsed = tokenizerSchema.safeParse(JSON.parse(text));
    if (!parsed.success) throw new ModelFileError("unsupported", "tokenizer.json holds no word-piece vocabulary");
    const pieces = Array.from({ length: size }, () => "");
    for (const [piece, id] of Object.entries(parsed.data.model.vocab)) {
      if (id < size) pieces[id] = piece;
    }
    return new Vocabulary(pieces, size);
  }

  /** Throws ModelFileError when there is no such token. */
  id(token: string): number {
    const id = this.#ids.get(token);
    if (id === undefined) throw new ModelFileError("unsupported", `the vocabulary has no ${token}: not that of a BERT`);
    return id;
  }

  /** The pieces as GGUF files spell them: the start of a word is marked, not its continuation. */
  spelled(): string[] {
    return this.#pieces.map((piece) => {
      if (/^\[.+\]$/.test(piece)) return piece;
      return piece.startsWith("##") ? piece.slice(2) : `\u2581${piece}`;
    });
  }

  /** One number a piece: how GGUF files call its kind. */
  kinds(): number[] {
    return this.#pieces.map((piece) => {
      if (controlTokens.has(piece)) return tokenKinds.control;
      return piece.startsWith("[unused") ? tokenKinds.unused : tokenKinds.normal;
    });
  }
}

/** The files of a sentence encoder that the converter looks for, relative to the encoder's folder. */
export const encoderFiles = {
  weights: "model.safetensors",
  required: ["config.json", "model.safetensors"],
  /** One of them is needed; the first is preferred. */
  vocabularies: ["vocab.txt", "tokenizer.json"],
  pooling: "1_Pooling/config.json",
} as const;
