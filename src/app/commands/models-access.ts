import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";
import type { PullProgress, PullRequest, StoredModel } from "../../domain/catalog/model-store.js";
import { type CliIo, CommandError } from "../cli-io.js";
import type { ConfigOptions } from "./load-for-command.js";
import { openFolderModels } from "./models-in-folder.js";
import { openServiceModels } from "./models-of-service.js";
import { administratorTarget, findService, isServiceAt } from "./service-client.js";

/** A kept model as commands show it. */
export type ListedModel = Omit<StoredModel, "path"> & {
  /** Whether a running service has loaded it. */
  readonly loaded: boolean;
};

/** A model of a running service's catalog. */
export interface ServedModel {
  /** What callers are told of it. */
  readonly model: Model;
  /** "ready", "loading" or "failed". */
  readonly state: string;
}

/** The kept models, reached in one of two ways. Methods reject with CommandError, or with the signal's reason. */
export interface ModelAccess {
  /** Whether a running service does the work, and loads what is added. */
  readonly isService: boolean;
  list(): Promise<readonly ListedModel[]>;
  /** What a running service serves, by id; nothing without one. */
  served(): Promise<readonly ServedModel[]>;
  pull(
    request: PullRequest,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<{ readonly model: ListedModel; readonly warnings: readonly string[] }>;
  /** `path` absolute. */
  import(path: string, id: string | null, signal: AbortSignal): Promise<ListedModel>;
  remove(id: string): Promise<ListedModel>;
  close(): Promise<void>;
}

/**
 * The models of the running service. When none was named and none answers, those of the data folder, so that models can
 * be fetched before the first start.
 */
export async function openModels(io: CliIo, options: ConfigOptions): Promise<ModelAccess> {
  const { url, isNamed, pid } = await findService(io, options);
  if (isNamed || (await isServiceAt(url))) return openServiceModels(await administratorTarget(io, options));
  if (pid === null) return openFolderModels(io, options);
  throw new CommandError(
    `process ${pid} runs on this data folder but does not answer at ${url}: try again once it has started or stopped`,
  );
}
