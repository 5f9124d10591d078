import { defaultChatModels, defaultEmbeddingModel } from "./default-models.js";

/** A well-known model with a name that is easy to type. */
export interface ShortName {
  /** Family and size: `qwen3:4b`. It is also the model's id, unless another one is given. */
  readonly name: string;
  readonly source: string;
  readonly kind: "chat" | "embedding";
  /** Approximate size of the download in bytes. */
  readonly approximateBytes: number;
  /** SPDX id of the license in lower case, or the publisher's name of the license. */
  readonly license: string;
}

const giga = 1_000_000_000;

function builtIn(name: string, id: string): ShortName {
  const model = [...defaultChatModels, defaultEmbeddingModel].find((known) => known.id === id);
  const source = model?.sources[0]?.source;
  if (model === undefined || source === undefined) throw new Error(`${id} is not a default model`);
  return { name, source, kind: model.kind, approximateBytes: model.file.bytes, license: model.license };
}

function chat(name: string, source: string, gigabytes: number, license: string): ShortName {
  return { name, source: `hf:${source}`, kind: "chat", approximateBytes: gigabytes * giga, license };
}

/** The short names, by family and size. Sizes and licences are the publishers' statements. */
export const shortNames: readonly ShortName[] = [
  builtIn("qwen3:0.6b", "qwen3-0.6b"),
  chat("qwen3:1.7b", "Qwen/Qwen3-1.7B-GGUF:Q8_0", 1.8, "apache-2.0"),
  chat("qwen3:4b", "Qwen/Qwen3-4B-GGUF:Q4_K_M", 2.5, "apache-2.0"),
  chat("qwen3:8b", "Qwen/Qwen3-8B-GGUF:Q4_K_M", 5, "apache-2.0"),
  chat("qwen3:14b", "Qwen/Qwen3-14B-GGUF:Q4_K_M", 9, "apache-2.0"),
  chat("qwen2.5-coder:7b", "bartowski/Qwen2.5-Coder-7B-Instruct-GGUF:Q4_K_M", 4.7, "apache-2.0"),
  chat("llama3.2:1b", "bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", 0.8, "llama3.2"),
  chat("llama3.2:3b", "bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M", 2, "llama3.2"),
  chat("llama3.1:8b", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M", 4.9, "llama3.1"),
  chat("gemma3:1b", "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", 0.8, "gemma"),
  chat("gemma3:4b", "ggml-org/gemma-3-4b-it-GGUF:Q4_K_M", 2.5, "gemma"),
  chat("phi4-mini:3.8b", "bartowski/microsoft_Phi-4-mini-instruct-GGUF:Q4_K_M", 2.5, "mit"),
  chat("mistral:7b", "bartowski/Mistral-7B-Instruct-v0.3-GGUF:Q4_K_M", 4.4, "apache-2.0"),
  builtIn("smollm2:135m", "smollm2-135m-instruct"),
  chat("smollm2:360m", "bartowski/SmolLM2-360M-Instruct-GGUF:Q4_K_M", 0.27, "apache-2.0"),
  chat("smollm2:1.7b", "bartowski/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M", 1.1, "apache-2.0"),
  builtIn("all-minilm:22m", "all-minilm-l6-v2"),
  {
    name: "nomic-embed-text:137m",
    source: "hf:nomic-ai/nomic-embed-text-v1.5-GGUF:Q8_0",
    kind: "embedding",
    approximateBytes: 0.15 * giga,
    license: "apache-2.0",
  },
];

/** The short name with this text, in upper or lower case; undefined if there is none. */
export function findShortName(text: string): ShortName | undefined {
  const lower = text.toLowerCase();
  return shortNames.find(({ name }) => name === lower);
}

/** Short names whose name or source contains every word. */
export function matchingShortNames(words: string): readonly ShortName[] {
  const each = words.toLowerCase().split(/\s+/);
  return shortNames.filter(({ name, source }) =>
    each.every((word) => `${name} ${source}`.toLowerCase().includes(word)),
  );
}
