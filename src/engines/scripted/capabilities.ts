import type { Capabilities } from "../../domain/engine/engine.js";
import type { ScriptedOptions } from "./scripted-options.js";

/**
 * What a scripted model says that it can do: everything that only shapes text, because its text is fixed anyway.
 * `dimensions` makes it an embedding model and nothing else.
 */
export function scriptedCapabilities(options: ScriptedOptions, contextLength: number): Capabilities {
  const embeds = options.dimensions !== undefined;
  return {
    chat: !embeds,
    completion: !embeds,
    embeddings: embeds,
    contextLength,
    maxOutput: contextLength,
    ...(options.dimensions === undefined
      ? {}
      : { embeddingDims: options.dimensions, shortenableEmbeddings: true, maxEmbedTokens: contextLength }),
    tools: "auto",
    parallelTools: true,
    jsonSchema: "full",
    grammar: true,
    logprobs: 20,
    echoLogprobs: true,
    logitBias: true,
    penalties: true,
    seed: "exact",
    nativeN: true,
    prefixCache: false,
    exactUsage: true,
    tokenInput: options.token_input ?? false,
    infill: false,
    vision: false,
  };
}
