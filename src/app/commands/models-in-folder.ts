import { resolve } from "node:path";
import { ServiceError } from "../../domain/call/service-error.js";
import type { StoredModel } from "../../domain/catalog/model-store.js";
import { createSystemClock } from "../../lib/clock.js";
import { type CliIo, CommandError } from "../cli-io.js";
import { openModelStore } from "../compose-models.js";
import { openDataDir } from "../data-dir.js";
import { type ConfigOptions, loadForCommand } from "./load-for-command.js";
import type { ListedModel, ModelAccess } from "./models-access.js";

/** The models of the data folder, worked on by this process. */
export async function openFolderModels(io: CliIo, options: ConfigOptions): Promise<ModelAccess> {
  const store = await openStoreOfFolder(io, options);
  return {
    isService: false,
    list: async () => (await store.list()).map(toListed),
    served: async () => [],
    async pull(request, onProgress, signal) {
      const { model, warnings } = await explained(store.pull(request, onProgress, signal));
      return { model: toListed(model), warnings };
    },
    import: async (path, id, signal) => toListed(await explained(store.importFile(path, id, signal))),
    async remove(id) {
      const model = await explained(store.remove(id));
      if (model === null) throw new CommandError(`no model is kept under the id '${id}'`);
      return toListed(model);
    },
    close: () => store.close(),
  };
}

/** The store of the data folder, which is made when it does not exist. Whoever opens it closes it. */
export async function openStoreOfFolder(io: CliIo, options: ConfigOptions): ReturnType<typeof openModelStore> {
  const { config } = await loadForCommand(io, options);
  const dataDir = resolve(io.cwd, config.data_dir);
  await openDataDir(dataDir);
  try {
    return await openModelStore({ ...config, data_dir: dataDir }, io.env, createSystemClock());
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(`the models in ${dataDir} cannot be used: ${reason}`, { cause });
  }
}

async function explained<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw cause instanceof ServiceError ? new CommandError(cause.message, { cause }) : cause;
  }
}

function toListed({ path: _, ...model }: StoredModel): ListedModel {
  return { ...model, loaded: false };
}
