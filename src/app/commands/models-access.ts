import { resolve } from "node:path";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import {
  type FoundModel as FoundMessage,
  ModelAdminService,
  type ModelPull,
  type PullModelResponse,
} from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { type StoredModel as Message, StoredModelKind } from "../../../gen/unified/admin/v1/stored_model_pb.js";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { CatalogService } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { FoundModel, PullProgress, PullRequest, StoredModel } from "../../domain/catalog/model-store.js";
import { createSystemClock } from "../../lib/clock.js";
import { errorText } from "../../lib/display-text.js";
import { type CliIo, CommandError } from "../command-line/cli-io.js";
import { openModelStore } from "../compose/model-store.js";
import { openDataDir } from "../process/data-folder.js";
import { type CommandOptions, loadForCommand } from "./load-for-command.js";
import {
  administratorTarget,
  explained,
  findService,
  isServiceAt,
  pagesOf,
  present,
  type ServiceTarget,
  serviceClient,
} from "./service-client.js";
import { requireUnused } from "./unused-folder.js";

/** A stored model for the output of commands. */
export type ListedModel = Omit<StoredModel, "path"> & {
  /** Whether a running service has loaded the model. */
  readonly loaded: boolean;
};

/** A model of a running service's catalog. */
export interface ServedModel {
  readonly model: Model;
  /** "ready", "loading", "unloaded" or "failed". */
  readonly state: string;
}

/** The models of the running service, or of the data folder. Methods reject with CommandError, or the signal's reason. */
export interface ModelAccess {
  /** Whether a running service does the work, and loads added models. */
  readonly isService: boolean;
  list(): Promise<readonly ListedModel[]>;
  /** Models that a running service serves, by id; empty without a running service. */
  served(): Promise<readonly ServedModel[]>;
  pull(
    request: PullRequest,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<{ readonly model: ListedModel; readonly warnings: readonly string[] }>;
  /** The pulls of the running service, newest first; empty without one. */
  pulls(): Promise<readonly ModelPull[]>;
  /** Ends a pull that runs in the service. */
  cancelPull(id: string): Promise<ModelPull>;
  search(words: string, signal: AbortSignal): Promise<readonly FoundModel[]>;
  /** `path` is absolute. */
  import(path: string, id: string | null, signal: AbortSignal): Promise<ListedModel>;
  remove(id: string): Promise<ListedModel>;
  close(): Promise<void>;
}

/**
 * The models of the running service. If the operator named no service and none answers, the models of the data folder, so that
 * models can be downloaded before the first start.
 */
export async function openModels(io: CliIo, options: CommandOptions): Promise<ModelAccess> {
  const { url, isNamed, pid } = await findService(io, options);
  if (isNamed || (await isServiceAt(url))) return openServiceModels(await administratorTarget(io, options));
  if (pid === null) return await openUnusedFolder(io, options);
  throw new CommandError(
    `process ${pid} uses this data folder but does not answer at ${url}: try again once it has started or stopped`,
  );
}

/** Rejects with CommandError if a service uses the folder: it would not notice the change. */
async function openUnusedFolder(io: CliIo, options: CommandOptions): Promise<ModelAccess> {
  const { config } = await loadForCommand(io, options);
  await requireUnused(resolve(io.cwd, config.data_dir));
  return openFolderModels(await openStoreOfFolder(io, options));
}

/** The models of the data folder, without a service. */
function openFolderModels(store: Awaited<ReturnType<typeof openStoreOfFolder>>): ModelAccess {
  return {
    isService: false,
    list: async () => (await store.list()).map(toListed),
    served: async () => [],
    async pull(request, onProgress, signal) {
      const { model, warnings } = await ofStore(store.pull(request, onProgress, signal));
      return { model: toListed(model), warnings };
    },
    search: (words, signal) => ofStore(store.search(words, signal)),
    pulls: async () => [],
    cancelPull: async () => {
      throw new CommandError("no service is running here, and pulls of other commands end with Ctrl-C");
    },
    import: async (path, id, signal) => toListed(await ofStore(store.importFile(path, { id }, signal))),
    async remove(id) {
      const model = await ofStore(store.remove(id));
      if (model === null) throw new CommandError(`no model is stored under the id '${id}'`);
      return toListed(model);
    },
    close: () => store.close(),
  };
}

/** Opens the store of the data folder, which is created if it does not exist. The caller closes it. */
export async function openStoreOfFolder(io: CliIo, options: CommandOptions): ReturnType<typeof openModelStore> {
  const { config } = await loadForCommand(io, options);
  const dataDir = resolve(io.cwd, config.data_dir);
  await openDataDir(dataDir);
  try {
    return await openModelStore({ ...config, data_dir: dataDir }, io.env, createSystemClock());
  } catch (cause) {
    throw new CommandError(`the models in ${dataDir} cannot be used: ${errorText(cause)}`, { cause });
  }
}

async function ofStore<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw cause instanceof ServiceError ? new CommandError(cause.message, { cause }) : cause;
  }
}

function toListed({ path: _, ...model }: StoredModel): ListedModel {
  return { ...model, loaded: false };
}

/** The models of a running service, which downloads and loads them itself. */
function openServiceModels(target: ServiceTarget): ModelAccess {
  const client = serviceClient(ModelAdminService, target);
  return {
    isService: true,
    list: async () => (await explained(target, client.listStoredModels({}))).models.map(ofMessage),
    served: () => explained(target, servedBy(target)),
    async pull({ source, id, sha256 }, onProgress, signal) {
      const request = { source: source ?? "", id: id ?? "", sha256: sha256 ?? "" };
      const last = await explained(target, lastOf(client.pullModel(request, { signal }), onProgress));
      return { model: ofMessage(last?.model), warnings: last?.warnings ?? [] };
    },
    search: async (words, signal) =>
      (await explained(target, client.searchModels({ words }, { signal }))).models.map(ofFound),
    pulls: async () => (await explained(target, client.listPulls({}))).pulls,
    cancelPull: async (id) => present((await explained(target, client.cancelPull({ id }))).pull),
    async import(path, id, signal) {
      return ofMessage((await explained(target, client.importModel({ path, id: id ?? "" }, { signal }))).model);
    },
    remove: async (id) => ofMessage((await explained(target, client.removeModel({ id }))).model),
    close: async () => {},
  };
}

const pageSize = 1000;

/** All pages of the catalog, with the state of each model. */
async function servedBy(target: ServiceTarget): Promise<readonly ServedModel[]> {
  const catalog = serviceClient(CatalogService, target);
  const models: Model[] = [];
  const pages = pagesOf((pageToken) => catalog.listModels({ pageSize, pageToken }));
  for await (const page of pages) models.push(...page.models);
  const { system } = await serviceClient(SystemService, target).getSystem({});
  const states = new Map(system?.models.map(({ id, state }) => [id, state]));
  return models.map((model) => ({ model, state: states.get(model.id) ?? "loading" }));
}

/** Reads the stream to its last message, which contains the model. */
async function lastOf(
  answers: AsyncIterable<PullModelResponse>,
  onProgress: (progress: PullProgress) => void,
): Promise<PullModelResponse | null> {
  let last: PullModelResponse | null = null;
  for await (const answer of answers) {
    const { receivedBytes, totalBytes } = answer;
    onProgress({ receivedBytes: Number(receivedBytes), totalBytes: totalBytes === 0n ? null : Number(totalBytes) });
    last = answer;
  }
  return last;
}

function ofFound({ approximateBytes, downloads, likes, license, kind, ...found }: FoundMessage): FoundModel {
  const isShortName = found.quantizations.length === 0 && !found.source.startsWith("hf:");
  return {
    ...found,
    kind: kind === StoredModelKind.CHAT ? "chat" : kind === StoredModelKind.EMBEDDING ? "embedding" : null,
    approximateBytes: Number(approximateBytes) || null,
    downloads: isShortName ? null : Number(downloads),
    likes: isShortName ? null : Number(likes),
    license: license || null,
  };
}

function ofMessage(message: Message | undefined): ListedModel {
  const model = present(message);
  return {
    id: model.id,
    kind: model.kind === StoredModelKind.EMBEDDING ? "embedding" : "chat",
    bytes: Number(model.sizeBytes),
    sha256: model.sha256,
    source: model.source,
    contextLength: model.contextLength,
    license: model.license || null,
    addedAtMs: model.addedAt === undefined ? 0 : timestampMs(model.addedAt),
    loaded: model.loaded,
  };
}
