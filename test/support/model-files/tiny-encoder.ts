import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const hidden = 32;
const inner = 64;
const positions = 16;

const words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "hello", "##s", "[odd]"];

/** The files of a BERT encoder with one layer, by name. */
export function tinyEncoderFiles(): Record<string, Buffer> {
  const config = {
    model_type: "bert",
    hidden_act: "gelu",
    num_hidden_layers: 1,
    num_attention_heads: 2,
    hidden_size: hidden,
    intermediate_size: inner,
    max_position_embeddings: positions,
    type_vocab_size: 2,
    vocab_size: words.length,
    layer_norm_eps: 1e-12,
  };
  return {
    "config.json": Buffer.from(JSON.stringify(config)),
    "vocab.txt": Buffer.from(`${words.join("\n")}\n`),
    "model.safetensors": safetensors(shapes()),
  };
}

export async function writeTinyEncoder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const [name, bytes] of Object.entries(tinyEncoderFiles())) await writeFile(join(folder, name), bytes);
}

function shapes(): Record<string, number[]> {
  const norm = (name: string) => ({ [`${name}.weight`]: [hidden], [`${name}.bias`]: [hidden] });
  const linear = (name: string, out: number, into: number) => ({
    [`${name}.weight`]: [out, into],
    [`${name}.bias`]: [out],
  });
  const layer = "encoder.layer.0";
  return {
    "embeddings.word_embeddings.weight": [words.length, hidden],
    "embeddings.position_embeddings.weight": [positions, hidden],
    "embeddings.token_type_embeddings.weight": [2, hidden],
    ...norm("embeddings.LayerNorm"),
    ...linear(`${layer}.attention.self.query`, hidden, hidden),
    ...linear(`${layer}.attention.self.key`, hidden, hidden),
    ...linear(`${layer}.attention.self.value`, hidden, hidden),
    ...linear(`${layer}.attention.output.dense`, hidden, hidden),
    ...norm(`${layer}.attention.output.LayerNorm`),
    ...linear(`${layer}.intermediate.dense`, inner, hidden),
    ...linear(`${layer}.output.dense`, hidden, inner),
    ...norm(`${layer}.output.LayerNorm`),
  };
}

/** A file with a tensor of each shape, whose values are computed from their indexes. */
export function safetensors(tensors: Record<string, number[]>, dtype = "F32"): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: "pt" } };
  const parts: Buffer[] = [];
  let at = 0;
  for (const [name, shape] of Object.entries(tensors)) {
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(at + i));
    header[name] = { dtype, shape, data_offsets: [at, at + values.byteLength] };
    parts.push(Buffer.from(values.buffer));
    at += values.byteLength;
  }
  return framed(JSON.stringify(header), Buffer.concat(parts));
}

/** A file with that header before the data. */
export function framed(header: string, data: Buffer = Buffer.alloc(0)): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(header)));
  return Buffer.concat([length, Buffer.from(header), data]);
}
