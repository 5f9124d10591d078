import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  ModelAdminService,
  type PullModelResponse,
  PullModelResponseSchema,
} from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { StoredModelKind } from "../../../gen/unified/admin/v1/stored_model_pb.js";
import { BoundedQueue } from "../../lib/collections.js";
import type { Audit } from "../access/audit.js";
import type { ModelAdmin, StoredModel } from "../catalog/model-store.js";
import { type RpcService, rpcService } from "./rpc-service.js";

/** Maximum queued progress messages for a slow reader; further ones are dropped, because later ones supersede them. */
const progressWaitingMax = 16;

/** `unified.admin.v1.ModelAdminService`: management of models; `Core.open` has authorized the administrator. */
export function createModelAdminService(admin: ModelAdmin, audit: Pick<Audit, "record">): RpcService {
  const fieldsOf = (model: StoredModel) => ({
    ...model,
    sizeBytes: BigInt(model.bytes),
    kind: model.kind === "chat" ? StoredModelKind.CHAT : StoredModelKind.EMBEDDING,
    license: model.license ?? "",
    addedAt: timestampFromMs(model.addedAtMs),
    loaded: admin.isLoaded(model.id),
  });
  return rpcService(ModelAdminService, {
    async pullModel({ source, id, sha256 }, ctx) {
      const queue = new BoundedQueue<PullModelResponse>(progressWaitingMax);
      const request = { source: source || null, id: id || null, sha256: sha256.toLowerCase() || null };
      const pulled = admin.pull(
        request,
        ({ receivedBytes, totalBytes }) => {
          if (queue.full) return;
          const progress = { receivedBytes: BigInt(receivedBytes), totalBytes: BigInt(totalBytes ?? 0) };
          queue.push(create(PullModelResponseSchema, progress), 1);
        },
        ctx.signal,
      );
      pulled.then(
        async ({ model, warnings }) => {
          await audit.record(ctx, "model.pull", model.id, { source: model.source, sha256: model.sha256 });
          const bytes = BigInt(model.bytes);
          const last = { receivedBytes: bytes, totalBytes: bytes, model: fieldsOf(model), warnings: [...warnings] };
          queue.push(create(PullModelResponseSchema, last), 1);
          queue.close();
        },
        (error: unknown) => queue.close(error),
      );
      return { items: queue };
    },
    async importModel({ path, id }, ctx) {
      const model = await admin.import(path, id || null, ctx.signal);
      await audit.record(ctx, "model.import", model.id, { path, sha256: model.sha256 });
      return { model: fieldsOf(model) };
    },
    async listStoredModels() {
      return { models: (await admin.list()).map(fieldsOf) };
    },
    async removeModel({ id }, ctx) {
      const model = await admin.remove(id);
      await audit.record(ctx, "model.remove", id);
      return { model: fieldsOf(model) };
    },
    async loadModel({ id }, ctx) {
      const model = await admin.load(id);
      await audit.record(ctx, "model.load", id);
      return { model: fieldsOf(model) };
    },
    async unloadModel({ id }, ctx) {
      const model = await admin.unload(id);
      await audit.record(ctx, "model.unload", id);
      return { model: fieldsOf(model) };
    },
  });
}
