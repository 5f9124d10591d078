import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type FileSum, ModelFileError } from "../files/model-files.js";
import { GgufWriter, type WritableType } from "../gguf/gguf-writer.js";
import { SafetensorsFile } from "./safetensors.js";

/** One conversion. Equal folders, types, names and licenses give equal bytes. */
export interface BertConversion {
  /** Folder with model.safetensors, config.json, vocab.txt or tokenizer.json, and optionally 1_Pooling/config.json. */
  folder: string;
  /** The GGUF file to write. */
  out: string;
  /** Type of the large matrices; norms, biases, position and type tables stay F32. */
  type: WritableType;
  /** `general.name` of the file. */
  name: string;
  /** `general.license`, an SPDX id in lower case; null leaves it out. */
  license: string | null;
}

/** Maximum bytes of config.json, vocab.txt or tokenizer.json. */
const textBytesMax = 64 * 1024 * 1024;

/** Values of `general.file_type` by the type of the large matrices. */
const fileTypes: Record<WritableType, number> = { F32: 0, F16: 1, Q8_0: 7 };
const poolingTypes = { mean: 1, cls: 2 } as const;

/**
 * Writes a sentence encoder of the plain BERT architecture as a GGUF file. It takes seconds of one core and reads
 * synchronously, so it must run in a worker thread. Throws ModelFileError.
 */
export async function convertBert(conversion: BertConversion): Promise<FileSum> {
  const { folder, out, type, name, license } = conversion;
  const config = parseEncoderConfig(readText(folder, "config.json"));
  const writer = new GgufWriter();
  writer.setString("general.architecture", "bert").setString("general.type", "model").setString("general.name", name);
  if (license !== null) writer.setString("general.license", license);
  writer.setUint32("general.file_type", fileTypes[type]);
  describeEncoder(writer, config, poolingTypes[parsePooling(readPooling(folder))]);
  describeTokenizer(writer, config, readVocabulary(folder, config.vocab_size));
  const weights = SafetensorsFile.open(join(folder, "model.safetensors"));
  try {
    addTensors(writer, weights, config.num_hidden_layers, type);
    return await writer.write(out);
  } finally {
    weights.close();
  }
}

function describeEncoder(writer: GgufWriter, config: EncoderConfig, pooling: number): void {
  writer
    .setUint32("bert.block_count", config.num_hidden_layers)
    .setUint32("bert.context_length", config.max_position_embeddings)
    .setUint32("bert.embedding_length", config.hidden_size)
    .setUint32("bert.feed_forward_length", config.intermediate_size)
    .setUint32("bert.attention.head_count", config.num_attention_heads)
    .setFloat32("bert.attention.layer_norm_epsilon", config.layer_norm_eps)
    .setBool("bert.attention.causal", false)
    .setUint32("bert.pooling_type", pooling);
}

function describeTokenizer(writer: GgufWriter, config: EncoderConfig, vocabulary: Vocabulary): void {
  writer
    .setString("tokenizer.ggml.model", "bert")
    .setString("tokenizer.ggml.pre", "default")
    .setUint32("tokenizer.ggml.token_type_count", config.type_vocab_size)
    .setStringArray("tokenizer.ggml.tokens", vocabulary.spelled())
    .setInt32Array("tokenizer.ggml.token_type", vocabulary.kinds())
    .setUint32("tokenizer.ggml.bos_token_id", vocabulary.id("[CLS]"))
    .setUint32("tokenizer.ggml.cls_token_id", vocabulary.id("[CLS]"))
    .setUint32("tokenizer.ggml.eos_token_id", vocabulary.id("[SEP]"))
    // The format spells this key with an "e".
    .setUint32("tokenizer.ggml.seperator_token_id", vocabulary.id("[SEP]"))
    .setUint32("tokenizer.ggml.unknown_token_id", vocabulary.id("[UNK]"))
    .setUint32("tokenizer.ggml.padding_token_id", vocabulary.id("[PAD]"))
    .setUint32("tokenizer.ggml.mask_token_id", vocabulary.id("[MASK]"));
}

/** Names of a layer's parts in the weights and in the GGUF, in the order of the file. */
const layerParts: readonly [from: string, to: string, isMatrix: boolean][] = [
  ["attention.self.query", "attn_q", true],
  ["attention.self.key", "attn_k", true],
  ["attention.self.value", "attn_v", true],
  ["attention.output.dense", "attn_output", true],
  ["attention.output.LayerNorm", "attn_output_norm", false],
  ["intermediate.dense", "ffn_up", true],
  ["output.dense", "ffn_down", true],
  ["output.LayerNorm", "layer_output_norm", false],
];

function addTensors(writer: GgufWriter, weights: SafetensorsFile, layers: number, type: WritableType): void {
  const add = (from: string, to: string, tensorType: WritableType = "F32") =>
    writer.tensor(to, weights.shape(from).toReversed(), tensorType, () => weights.values(from));
  add("embeddings.word_embeddings.weight", "token_embd.weight", type);
  add("embeddings.position_embeddings.weight", "position_embd.weight");
  add("embeddings.token_type_embeddings.weight", "token_types.weight");
  add("embeddings.LayerNorm.weight", "token_embd_norm.weight");
  add("embeddings.LayerNorm.bias", "token_embd_norm.bias");
  for (let layer = 0; layer < layers; layer += 1) {
    for (const [from, to, isMatrix] of layerParts) {
      add(`encoder.layer.${layer}.${from}.weight`, `blk.${layer}.${to}.weight`, isMatrix ? type : "F32");
      add(`encoder.layer.${layer}.${from}.bias`, `blk.${layer}.${to}.bias`);
    }
  }
}

function readVocabulary(folder: string, size: number): Vocabulary {
  // Each line has one piece, whose id is the number of the line.
  const isPlain = existsSync(join(folder, "vocab.txt"));
  if (isPlain) return new Vocabulary(readText(folder, "vocab.txt").replace(/\n$/, "").split("\n"), size);
  const parsed = tokenizerSchema.safeParse(parseJson(readText(folder, "tokenizer.json"), "tokenizer.json"));
  if (!parsed.success) throw new ModelFileError("unsupported", "tokenizer.json holds no word-piece vocabulary");
  const pieces = Array.from({ length: size }, () => "");
  for (const [piece, id] of Object.entries(parsed.data.model.vocab)) {
    if (id < size) pieces[id] = piece;
  }
  return new Vocabulary(pieces, size);
}

function readPooling(folder: string): string | null {
  const name = join("1_Pooling", "config.json");
  return existsSync(join(folder, name)) ? readText(folder, name) : null;
}

function readText(folder: string, name: string): string {
  const path = join(folder, name);
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) throw new ModelFileError("missing", `${name} is missing from the encoder's folder`);
  if (found.size > textBytesMax) {
    throw new ModelFileError("malformed", `${name} has ${found.size} bytes, the limit is ${textBytesMax}`);
  }
  return readFileSync(path, "utf8");
}

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
type EncoderConfig = z.infer<typeof configSchema>;

/** Reads the text of a config.json. Throws ModelFileError if it does not describe a plain BERT encoder. */
function parseEncoderConfig(text: string): EncoderConfig {
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
 * How a sentence encoder combines token vectors into the vector of a text, read from its pooling configuration; without one
 * (null) it is the mean.
 */
function parsePooling(text: string | null): "mean" | "cls" {
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

/** Numbers of the token types in GGUF files. */
const tokenKinds = { normal: 1, control: 3, unused: 5 } as const;

const controlTokens = new Set(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]);

const tokenizerSchema = z.object({ model: z.object({ vocab: z.record(z.string(), z.number().int().min(0)) }) });

/** The word pieces of a BERT tokenizer by id. */
export class Vocabulary {
  readonly #pieces: readonly string[];
  readonly #ids: ReadonlyMap<string, number>;

  /** Throws ModelFileError unless there are exactly `size` different pieces. */
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

  /** The id of a token. Throws ModelFileError if there is no such token. */
  id(token: string): number {
    const id = this.#ids.get(token);
    if (id === undefined) throw new ModelFileError("unsupported", `the vocabulary has no ${token}: not that of a BERT`);
    return id;
  }

  /** The pieces in the spelling of GGUF files, which mark the start of a word instead of its continuation. */
  spelled(): string[] {
    return this.#pieces.map((piece) => {
      if (/^\[.+\]$/.test(piece)) return piece;
      return piece.startsWith("##") ? piece.slice(2) : `\u2581${piece}`;
    });
  }

  /** The number of each piece's token type in GGUF files. */
  kinds(): number[] {
    return this.#pieces.map((piece) => {
      if (controlTokens.has(piece)) return tokenKinds.control;
      return piece.startsWith("[unused") ? tokenKinds.unused : tokenKinds.normal;
    });
  }
}
