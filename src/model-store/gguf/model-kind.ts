import type { GgufHeader } from "./gguf-header.js";

/** What a model can be asked for. */
export type ModelKind = "chat" | "embedding";

/** An embedding model pools its token vectors or is an encoder; every other one writes text. */
export function modelKind({ architecture, poolingType }: GgufHeader): ModelKind {
  const pools = poolingType !== null && poolingType >= 1 && poolingType <= 3;
  return pools || architecture.includes("bert") ? "embedding" : "chat";
}
