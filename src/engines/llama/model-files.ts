import type { LoadProgress } from "../../domain/engine/engine.js";

/** A verified GGUF file on this machine. */
export interface ModelFile {
  /** Absolute. */
  readonly path: string;
  readonly kind: "chat" | "embedding";
  /** Tokens that the model was trained for. */
  readonly trainedContext: number;
  /** Whether its vectors keep their meaning when they are cut to fewer dimensions; default false. */
  readonly shortenableEmbeddings?: boolean;
}

/** The port to wherever files of models come from. */
export interface ModelFiles {
  /**
   * The file that a deployment's options name, fetched and verified first when it is not here. Rejects with EngineError
   * when there is none, and with `aborted` when the signal aborts.
   */
  locate(options: unknown, onProgress: (progress: LoadProgress) => void, signal: AbortSignal): Promise<ModelFile>;
}
