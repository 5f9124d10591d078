import type { Capabilities } from "../../src/domain/engine/engine.js";

/** A model with every capability except those that a test removes. */
export function caps(changes: Partial<Capabilities> = {}): Capabilities {
  return {
    chat: true,
    completion: true,
    embeddings: true,
    rerank: true,
    contextLength: 4096,
    maxOutput: 4096,
    tools: "auto",
    toolChoice: true,
    parallelTools: true,
    jsonObject: true,
    jsonSchema: "full",
    grammar: true,
    logprobs: 20,
    echoLogprobs: true,
    logitBias: true,
    penalties: true,
    nativeN: true,
    tokenInput: true,
    vision: true,
    audio: true,
    ...changes,
  };
}
