import { timestampMs } from "@bufbuild/protobuf/wkt";
import { ModelAdminService, type PullModelResponse } from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { type StoredModel as Message, StoredModelKind } from "../../../gen/unified/admin/v1/stored_model_pb.js";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { CatalogService } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";
import type { PullProgress } from "../../domain/catalog/model-store.js";
import { CommandError } from "../cli-io.js";
import type { ListedModel, ModelAccess, ServedModel } from "./models-access.js";
import { type ServiceTarget, serviceClient, toCommandError } from "./service-client.js";

/** The models of a running service, which fetches and loads them itself. */
export function openServiceModels(target: ServiceTarget): ModelAccess {
  const client = serviceClient(ModelAdminService, target);
  const called = async <T>(call: Promise<T>): Promise<T> => {
    try {
      return await call;
    } catch (error) {
      throw error instanceof CommandError ? error : toCommandError(error, target);
    }
  };
  return {
    isService: true,
    list: async () => (await called(client.listStoredModels({}))).models.map(toListed),
    served: () => called(servedBy(target)),
    async pull({ source, id, sha256 }, onProgress, signal) {
      const request = { source: source ?? "", id: id ?? "", sha256: sha256 ?? "" };
      const last = await called(lastOf(client.pullModel(request, { signal }), onProgress));
      return { model: toListed(last?.model), warnings: last?.warnings ?? [] };
    },
    async import(path, id, signal) {
      return toListed((await called(client.importModel({ path, id: id ?? "" }, { signal }))).model);
    },
    remove: async (id) => toListed((await called(client.removeModel({ id }))).model),
    close: async () => {},
  };
}

const pageSize = 1000;

/** All pages of the catalog, and how each model is doing. */
async function servedBy(target: ServiceTarget): Promise<readonly ServedModel[]> {
  const catalog = serviceClient(CatalogService, target);
  const models: Model[] = [];
  let pageToken = "";
  do {
    const page = await catalog.listModels({ pageSize, pageToken });
    models.push(...page.models);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  const { system } = await serviceClient(SystemService, target).getSystem({});
  const states = new Map(system?.models.map(({ id, state }) => [id, state]));
  return models.map((model) => ({ model, state: states.get(model.id) ?? "loading" }));
}

/** Reads to the end, where the model is. */
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

function toListed(model: Message | undefined): ListedModel {
  if (model === undefined) {
    throw new CommandError("the service answered without a model: give it the version of this command");
  }
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
