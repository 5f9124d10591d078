import { join } from "node:path";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { ModelStore, PullProgress, StoredModel } from "../../domain/catalog/model-store.js";
import { EngineError, type LoadProgress } from "../../domain/engine/engine.js";
import { defaultChatModels } from "../../model-store/default-models.js";
import { type GgufHeader, type ModelKind, modelKind, readGgufHeader } from "../../model-store/gguf/gguf-header.js";
import { createModelSources, type ModelSources } from "../../model-store/model-sources.js";
import { ModelPuller } from "../../model-store/puller.js";
import { defaultPullOptions, type PullOptions } from "../../model-store/sources/pull-options.js";
import { ModelStore as KeptFiles } from "../../model-store/store.js";
import { createStoredModels } from "../../model-store/stored-models.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { readDownloadSettings } from "../config/well-known-variables.js";
import type { LlamaOptions } from "./model-catalog.js";

interface OpenModelStore extends ModelStore {
  /** Models whose file does not look as it did when it was added; they are not listed. */
  readonly damaged: readonly { readonly model: { readonly id: string }; readonly reason: string }[];
  close(): Promise<void>;
}

/** The models on this machine and where more of them come from. Whoever opens it closes it. */
export async function openModelStore(
  config: Pick<Config, "data_dir" | "offline">,
  environment: Variables,
  clock: Pick<Clock, "now">,
): Promise<OpenModelStore> {
  const store = await KeptFiles.open(join(config.data_dir, "models"), clock);
  const puller = new ModelPuller(store, toPullOptions(config, environment));
  return { ...createStoredModels(store, puller), damaged: store.damaged, close: () => puller.close() };
}

function toPullOptions({ offline }: Pick<Config, "offline">, environment: Variables): PullOptions {
  const { hubEndpoint, hubToken, httpProxy, httpsProxy, noProxy } = readDownloadSettings(environment);
  return {
    ...defaultPullOptions,
    offline,
    ...(hubEndpoint === null ? {} : { hubEndpoint }),
    hubToken: hubToken ?? "",
    httpProxy: httpProxy ?? "",
    httpsProxy: httpsProxy ?? "",
    noProxy: noProxy ?? "",
    pipEnvironment: environment,
  };
}

/** The hub and the programs that models come from. */
export function modelSources(config: Pick<Config, "offline">, environment: Variables): ModelSources {
  return createModelSources(toPullOptions(config, environment));
}

/** What a GGUF file says of itself. */
export type GgufFacts = GgufHeader & { readonly kind: ModelKind };

/** Reads a GGUF file's header, nothing else. Rejects with ModelFileError when it is not well formed. */
export async function inspectModelFile(path: string): Promise<GgufFacts> {
  const header = await readGgufHeader(path);
  return { ...header, kind: modelKind(header) };
}

/** A model's file, as the embedded engine asks for it. */
interface LocatedFile {
  readonly path: string;
  readonly kind: "chat" | "embedding";
  readonly trainedContext: number;
  readonly answerTokens?: number;
}

/** Tokens of an answer of the demonstration model, which often does not find an end by itself. */
const answerTokens = 512;

/** Share of a download between two reports of progress. */
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
