import { join } from "node:path";
import type { Clock } from "../domain/call/ports.js";
import type { ModelStore } from "../domain/catalog/model-store.js";
import { type GgufHeader, type ModelKind, modelKind, readGgufHeader } from "../model-store/gguf/gguf-header.js";
import { createModelSources, type ModelSources } from "../model-store/model-sources.js";
import { defaultPullOptions, type PullOptions } from "../model-store/pull-options.js";
import { ModelPuller } from "../model-store/puller.js";
import { ModelStore as KeptFiles } from "../model-store/store.js";
import { createStoredModels } from "../model-store/stored-models.js";
import { readDownloadSettings } from "./config/download-settings.js";
import type { Variables } from "./config/expand.js";
import type { Config } from "./config/schema.js";

export interface OpenModelStore extends ModelStore {
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
