import type { Capabilities } from "../../domain/engine/engine.js";
import type { LoadedFacts } from "./protocol.js";

/** Alternatives that the sampler can report for a position. */
const logprobsMax = 20;

/** What a loaded model can do. `shortenable`: its vectors keep their meaning when they are cut. */
export function llamaCapabilities(
  kind: "chat" | "embedding",
  { contextLength, embeddingDims, tools }: LoadedFacts,
  shortenable: boolean,
): Capabilities {
  const isChat = kind === "chat";
  return {
    chat: isChat,
    completion: isChat,
    embeddings: !isChat,
    contextLength,
    maxOutput: isChat ? contextLength : 0,
    ...(embeddingDims === null
      ? {}
      : { embeddingDims, shortenableEmbeddings: shortenable, maxEmbedTokens: contextLength }),
    tools: isChat ? tools : "none",
    parallelTools: true,
    jsonSchema: isChat ? "subset" : "none",
    grammar: isChat,
    logprobs: isChat ? logprobsMax : 0,
    echoLogprobs: false,
    logitBias: isChat,
    penalties: isChat,
    seed: "best-effort",
    nativeN: false,
    prefixCache: isChat,
    exactUsage: true,
    // Some clients send texts to be embedded as ids of another model's vocabulary: better refused than embedded as noise.
    tokenInput: isChat,
    infill: false,
    vision: false,
  };
}
