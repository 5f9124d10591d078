import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { ModelFileError } from "../files/model-errors.js";
import { GgufWriter, type WrittenFile } from "../gguf/gguf-writer.js";
import type { WritableType } from "../gguf/tensors.js";
import { type EncoderConfig, parseEncoderConfig, parsePooling, Vocabulary } from "./encoder.js";
import { SafetensorsFile } from "./safetensors.js";

/** One conversion. Equal folders, types, names and licenses make equal bytes. */
export interface BertConversion {
  /** Holds model.safetensors, config.json, vocab.txt or tokenizer.json, and maybe 1_Pooling/config.json. */
  folder: string;
  /** The GGUF file to write. */
  out: string;
  /** How the large matrices are kept; norms, biases, position and type tables stay F32. */
  type: WritableType;
  /** `general.name` of the file. */
  name: string;
  /** `general.license`, an SPDX id in lower case; null leaves it out. */
  license: string | null;
}

/** Bytes of config.json, vocab.txt or tokenizer.json at most. */
const textBytesMax = 64 * 1024 * 1024;

/** What `general.file_type` says of the large matrices. */
const fileTypes: Record<WritableType, number> = { F32: 0, F16: 1, Q8_0: 7 };
const poolingTypes = { mean: 1, cls: 2 } as const;

/**
 * Writes a sentence encoder of the plain BERT kind as a GGUF file. Takes seconds of one core and reads synchronously:
 * for a worker thread. Throws ModelFileError.
 */
export async function convertBert(conversion: BertConversion): Promise<WrittenFile> {
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
    // The format spells this key so.
    .setUint32("tokenizer.ggml.seperator_token_id", vocabulary.id("[SEP]"))
    .setUint32("tokenizer.ggml.unknown_token_id", vocabulary.id("[UNK]"))
    .setUint32("tokenizer.ggml.padding_token_id", vocabulary.id("[PAD]"))
    .setUint32("tokenizer.ggml.mask_token_id", vocabulary.id("[MASK]"));
}

/** What a layer's parts are called in the weights and in the GGUF, in the order of the file. */
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
  if (existsSync(join(folder, "vocab.txt"))) return Vocabulary.fromLines(readText(folder, "vocab.txt"), size);
  return Vocabulary.fromTokenizer(readText(folder, "tokenizer.json"), size);
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
