import type { FileSum } from "../../../src/model-store/files/model-files.js";
import { GgufWriter } from "../../../src/model-store/gguf/gguf-writer.js";

/** Writes a well-formed GGUF of a few hundred bytes and `values` floats. It cannot be run. */
export function writeTinyGguf(path: string, name = "tiny", values = 64): Promise<FileSum> {
  return new GgufWriter()
    .setString("general.architecture", "llama")
    .setString("general.name", name)
    .setString("general.license", "apache-2.0")
    .setUint32("llama.context_length", 128)
    .setUint32("llama.embedding_length", 32)
    .setStringArray("tokenizer.ggml.tokens", ["<s>", "a", "b"])
    .setFloat32Array("tokenizer.ggml.scores", [0, 1, 2])
    .setInt32Array("tokenizer.ggml.token_type", [3, 1, 1])
    .setString("tokenizer.chat_template", "{{ messages[0].content }}")
    .tensor("token_embd.weight", [32, values / 32], "F32", () => Float32Array.from({ length: values }, (_, i) => i / 8))
    .tensor("output_norm.weight", [32], "F32", () => new Float32Array(32).fill(1))
    .write(path);
}
