import { GgufWriter } from "../../../src/model-store/gguf/gguf-writer.js";
import type { Vocabulary } from "./byte-vocabulary.js";

export interface LlamaShape {
  readonly name: string;
  readonly layers: number;
  readonly heads: number;
  /** Dimensions of a token's vector: `heads` times 64. */
  readonly width: number;
  readonly feedForward: number;
  readonly contextLength: number;
  readonly chatTemplate: string;
}

/** Dimensions of one attention head. */
export const headWidth = 64;

/** The chat template ChatML, which renders a system message like any other message. */
export const chatMl =
  "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/** A writer with the header of a llama model that uses this vocabulary; the tensors are the caller's. */
export function llamaHeader(shape: LlamaShape, vocabulary: Vocabulary): GgufWriter {
  const gguf = new GgufWriter();
  gguf.setString("general.architecture", "llama");
  gguf.setString("general.name", shape.name);
  gguf.setUint32("llama.block_count", shape.layers);
  gguf.setUint32("llama.context_length", shape.contextLength);
  gguf.setUint32("llama.embedding_length", shape.width);
  gguf.setUint32("llama.feed_forward_length", shape.feedForward);
  gguf.setUint32("llama.attention.head_count", shape.heads);
  gguf.setUint32("llama.attention.head_count_kv", 1);
  gguf.setFloat32("llama.attention.layer_norm_rms_epsilon", 1e-5);
  gguf.setUint32("llama.rope.dimension_count", headWidth);
  gguf.setUint32("llama.vocab_size", vocabulary.tokens.length);
  gguf.setString("tokenizer.ggml.model", "gpt2");
  gguf.setString("tokenizer.ggml.pre", "gpt-2");
  gguf.setStringArray("tokenizer.ggml.tokens", vocabulary.tokens);
  gguf.setInt32Array("tokenizer.ggml.token_type", vocabulary.kinds);
  gguf.setStringArray("tokenizer.ggml.merges", vocabulary.merges);
  gguf.setUint32("tokenizer.ggml.bos_token_id", vocabulary.controls.endOfText);
  gguf.setUint32("tokenizer.ggml.eos_token_id", vocabulary.controls.end);
  gguf.setBool("tokenizer.ggml.add_bos_token", false);
  gguf.setString("tokenizer.chat_template", shape.chatTemplate);
  return gguf;
}

/** Adds the tensors of all layers; `make` fills those that are no norm, from their name and count of numbers. */
export function addLayers(gguf: GgufWriter, shape: LlamaShape, make: (count: number) => Float32Array): void {
  const { width, feedForward } = shape;
  const matrix = (name: string, rows: number, columns: number): void => {
    gguf.tensor(name, [rows, columns], "F32", () => make(rows * columns));
  };
  const norm = (name: string): void => {
    gguf.tensor(name, [width], "F32", () => new Float32Array(width).fill(1));
  };
  for (let layer = 0; layer < shape.layers; layer++) {
    const block = `blk.${layer}`;
    norm(`${block}.attn_norm.weight`);
    matrix(`${block}.attn_q.weight`, width, shape.heads * headWidth);
    matrix(`${block}.attn_k.weight`, width, headWidth);
    matrix(`${block}.attn_v.weight`, width, headWidth);
    matrix(`${block}.attn_output.weight`, shape.heads * headWidth, width);
    norm(`${block}.ffn_norm.weight`);
    matrix(`${block}.ffn_gate.weight`, width, feedForward);
    matrix(`${block}.ffn_up.weight`, width, feedForward);
    matrix(`${block}.ffn_down.weight`, feedForward, width);
  }
  norm("output_norm.weight");
}
