import { GgufWriter } from "../../../src/model-store/gguf/gguf-writer.js";
import { byteVocabulary } from "./byte-vocabulary.js";
import { addLayers, chatMl, headWidth, llamaHeader } from "./llama-gguf.js";

export interface RandomGguf {
  /** Equal seeds give equal weights on every machine. Default 12345. */
  readonly seed?: number;
  /** Default 2. */
  readonly layers?: number;
  /** Default 2; the width is 64 times that. */
  readonly heads?: number;
  /** Default 4096. */
  readonly contextLength?: number;
  readonly chatTemplate?: string;
  /** Length of the longest token in letters. Default: the longest of the common words. */
  readonly longestWord?: number;
}

const commonWords =
  'the of and to a in is it you that he was for on are with as his they at be this from have or by one had not but what all were we when your can said there use an each which she do how their if will up other about out many then them these so some her would make like him into time has look two more write go see number no way could people my than first water been call who oil its now find long down day did get come made may part name true false null { } [ ] , : "';

/** Writes a chat model with random weights, which generates random text at full speed. About 1 MB. */
export async function writeRandomGguf(path: string, options: RandomGguf = {}): Promise<void> {
  const words = commonWords.split(" ").flatMap((word) => [word, ` ${word}`]);
  const vocabulary = byteVocabulary([...words, "z".repeat(options.longestWord ?? 1)]);
  const heads = options.heads ?? 2;
  const shape = {
    name: "random",
    layers: options.layers ?? 2,
    heads,
    width: heads * headWidth,
    feedForward: 2 * heads * headWidth,
    contextLength: options.contextLength ?? 4096,
    chatTemplate: options.chatTemplate ?? chatMl,
  };
  const random = randomNumbers(options.seed ?? 12_345, 0.08);
  const gguf = llamaHeader(shape, vocabulary);
  const { length } = vocabulary.tokens;
  gguf.tensor("token_embd.weight", [shape.width, length], "F32", () => random(shape.width * length));
  addLayers(gguf, shape, random);
  gguf.tensor("output.weight", [shape.width, length], "F32", () => random(shape.width * length));
  await gguf.write(path);
}

export interface RandomBertGguf {
  /** Default 2. */
  readonly layers?: number;
  /** Length of the vectors, a multiple of 32. Default 64. */
  readonly width?: number;
  /** Default: twice the width. */
  readonly feedForward?: number;
}

/** Writes a sentence encoder with random weights and a context of 512 tokens. */
export async function writeRandomBertGguf(path: string, options: RandomBertGguf = {}): Promise<void> {
  const { layers = 2, width = 64 } = options;
  const feedForward = options.feedForward ?? 2 * width;
  const contextLength = 512;
  const words = commonWords.split(" ").filter((word) => /^[a-z]+$/.test(word));
  const letters = Array.from({ length: 26 }, (_, i) => String.fromCharCode(97 + i));
  const starts = new Set([...words, ...letters].map((word) => `\u2581${word}`));
  const tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ...starts, ...letters];
  const random = randomNumbers(54_321, 0.2);
  const gguf = new GgufWriter();
  gguf.setString("general.architecture", "bert");
  gguf.setString("general.name", "random-encoder");
  gguf.setUint32("bert.block_count", layers);
  gguf.setUint32("bert.context_length", contextLength);
  gguf.setUint32("bert.embedding_length", width);
  gguf.setUint32("bert.feed_forward_length", feedForward);
  gguf.setUint32("bert.attention.head_count", width / 32);
  gguf.setFloat32("bert.attention.layer_norm_epsilon", 1e-12);
  gguf.setBool("bert.attention.causal", false);
  gguf.setUint32("bert.pooling_type", 1);
  gguf.setString("tokenizer.ggml.model", "bert");
  gguf.setString("tokenizer.ggml.pre", "default");
  gguf.setUint32("tokenizer.ggml.token_type_count", 2);
  gguf.setStringArray("tokenizer.ggml.tokens", tokens);
  gguf.setInt32Array(
    "tokenizer.ggml.token_type",
    tokens.map((token) => (token.startsWith("[") ? 3 : 1)),
  );
  const ids = { bos: 2, cls: 2, eos: 3, seperator: 3, unknown: 1, padding: 0, mask: 4 };
  for (const [name, id] of Object.entries(ids)) gguf.setUint32(`tokenizer.ggml.${name}_token_id`, id);
  const matrix = (name: string, rows: number, columns: number): void =>
    void gguf.tensor(name, [rows, columns], "F32", () => random(rows * columns));
  const norm = (name: string): void => {
    gguf.tensor(`${name}.weight`, [width], "F32", () => new Float32Array(width).fill(1));
    gguf.tensor(`${name}.bias`, [width], "F32", () => new Float32Array(width));
  };
  const linear = (name: string, rows: number, columns: number): void => {
    matrix(`${name}.weight`, rows, columns);
    gguf.tensor(`${name}.bias`, [columns], "F32", () => new Float32Array(columns));
  };
  matrix("token_embd.weight", width, tokens.length);
  matrix("position_embd.weight", width, contextLength);
  matrix("token_types.weight", width, 2);
  norm("token_embd_norm");
  for (const block of Array.from({ length: layers }, (_, layer) => `blk.${layer}`)) {
    for (const part of ["attn_q", "attn_k", "attn_v", "attn_output"]) linear(`${block}.${part}`, width, width);
    norm(`${block}.attn_output_norm`);
    linear(`${block}.ffn_up`, width, feedForward);
    linear(`${block}.ffn_down`, feedForward, width);
    norm(`${block}.layer_output_norm`);
  }
  await gguf.write(path);
}

/** Makes arrays of random numbers around 0, about normally distributed: the sum of four of a xorshift generator. */
function randomNumbers(seed: number, spread: number): (count: number) => Float32Array {
  let state = seed;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  return (count) =>
    Float32Array.from({ length: count }, () => (next() + next() + next() + next() - 2) * Math.sqrt(3) * spread);
}
