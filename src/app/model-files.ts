import type { Logger } from "../domain/call/ports.js";
import { ServiceError } from "../domain/call/service-error.js";
import type { ModelStore, PullProgress, StoredModel } from "../domain/catalog/model-store.js";
import { EngineError, type LoadProgress } from "../domain/engine/engine.js";
import { defaultChatModels } from "../model-store/default-models.js";
import type { LlamaOptions } from "./model-definitions.js";

/** A model's file, as the embedded engine asks for it. */
export interface LocatedFile {
  readonly path: string;
  readonly kind: "chat" | "embedding";
  readonly trainedContext: number;
  readonly answerTokens?: number;
}

/** Tokens of an answer of the demonstration model, which often does not find an end by itself. */
const answerTokens = 512;

/** Progress is told once per so much of a download. */
const shareStep = 0.1;

/** Finds the files of the embedded engine's models: what is kept under the id, else what the source brings. */
export function createModelFiles({ store, log }: { readonly store: ModelStore; readonly log: Logger }) {
  return {
    async locate(
      options: unknown,
      onProgress: (progress: LoadProgress) => void,
      signal: AbortSignal,
    ): Promise<LocatedFile> {
      const { id, source, sha256 } = options as LlamaOptions;
      const kept = await store.find(id);
      if (kept !== null && isWanted(kept, source, sha256)) return toFile(kept);
      const tell = progressLog(id, log);
      try {
        const { model, warnings } = await store.pull(
          { source, id, sha256 },
          (progress) => {
            tell(progress);
            onProgress({ stage: "fetching", share: shareOf(progress) });
          },
          signal,
        );
        for (const warning of warnings) log.warn({ model: id }, warning);
        return toFile(model);
      } catch (cause) {
        if (signal.aborted) throw new EngineError("aborted", "the load was aborted", { cause });
        if (!(cause instanceof ServiceError)) throw cause;
        throw new EngineError("model_not_loaded", cause.message, { retryable: true, cause });
      }
    },
  };
}

/** Whether what is kept under an id is what the configuration asks for now. */
function isWanted(kept: StoredModel, source: string | null, sha256: string | null): boolean {
  if (sha256 !== null) return kept.sha256 === sha256;
  return source === null || kept.source === source;
}

function toFile({ path, kind, contextLength, sha256 }: StoredModel): LocatedFile {
  const isDemonstration = defaultChatModels.some((model) => model.isDemonstration && model.file.sha256 === sha256);
  return { path, kind, trainedContext: contextLength, ...(isDemonstration ? { answerTokens } : {}) };
}

function shareOf({ receivedBytes, totalBytes }: PullProgress): number {
  return totalBytes === null || totalBytes === 0 ? 0 : Math.min(1, receivedBytes / totalBytes);
}

/** One line in the log when a download begins, and one per ten percent. */
function progressLog(model: string, log: Logger): (progress: PullProgress) => void {
  let nextShare = 0;
  return (progress) => {
    const share = shareOf(progress);
    if (share < nextShare) return;
    nextShare = (Math.floor(share / shareStep) + 1) * shareStep;
    const { receivedBytes: received_bytes, totalBytes: total_bytes } = progress;
    log.info({ model, received_bytes, total_bytes, percent: Math.floor(share * 100) }, "fetching a model");
  };
}
