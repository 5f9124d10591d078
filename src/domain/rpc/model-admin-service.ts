import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  ModelAdminService,
  type PullModelResponse,
  PullModelResponseSchema,
  PullState as PullStateNumber,
} from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { StoredModelKind } from "../../../gen/unified/admin/v1/stored_model_pb.js";
import { BoundedQueue } from "../../lib/collections.js";
import type { Audit, AuditSource } from "../access/audit.js";
import type { CallContext } from "../call/call-context.js";
import { sessionIdOf } from "../call/principal.js";
import type { ModelAdmin } from "../catalog/model-admin.js";
import type { ModelPull, PullState } from "../catalog/model-pull.js";
import type { FoundModel, StoredModel } from "../catalog/model-store.js";
import { type RpcService, rpcService, timestampOf } from "./rpc-service.js";

/** Maximum queued progress messages for a slow reader; further ones are dropped, because later ones supersede them. */
const progressWaitingMax = 16;

/** `unified.admin.v1.ModelAdminService`: management of models; `Core.open` has authorized the administrator. */
export function createModelAdminService(admin: ModelAdmin, audit: Pick<Audit, "record">): RpcService {
  const fieldsOf = (model: StoredModel) => ({
    ...model,
    sizeBytes: BigInt(model.bytes),
    kind: kindNumbers[model.kind],
    license: model.license ?? "",
    addedAt: timestampFromMs(model.addedAtMs),
    loaded: admin.isLoaded(model.id),
  });
  return rpcService(ModelAdminService, {
    async pullModel({ source, id, sha256 }, ctx) {
      const queue = new BoundedQueue<PullModelResponse>(progressWaitingMax);
      const request = { source: source || null, id: id || null, sha256: sha256.toLowerCase() || null, ...guard(ctx) };
      const pull = admin.pull(request, (model) => recordPull(audit, ctx, model));
      const { id: pulledId } = pull;
      pull
        .follow(({ progress: { receivedBytes, totalBytes }, state }) => {
          if (queue.full) return;
          const progress = { receivedBytes: BigInt(receivedBytes), totalBytes: BigInt(totalBytes ?? 0) };
          queue.push(create(PullModelResponseSchema, { ...progress, state: stateNumbers[state], id: pulledId }), 1);
        }, ctx.signal)
        .then(
          ({ model, warnings }) => {
            const bytes = BigInt(model.bytes);
            const state = PullStateNumber.SUCCEEDED;
            const last = { receivedBytes: bytes, totalBytes: bytes, state, id: pulledId };
            queue.push(
              create(PullModelResponseSchema, { ...last, model: fieldsOf(model), warnings: [...warnings] }),
              1,
            );
            queue.close();
          },
          (error: unknown) => queue.close(error),
        );
      return { items: queue };
    },
    async listPulls() {
      return { pulls: admin.pulls().map(pullFields) };
    },
    async cancelPull({ id }, ctx) {
      const pull = await admin.cancelPull(id);
      await audit.record(ctx, "model.cancel_pull", id);
      return { pull: pullFields(pull) };
    },
    async searchModels({ words }, ctx) {
      const found = await admin.search(words, ctx.signal);
      return { models: found.map(foundFields) };
    },
    async importModel({ path, id }, ctx) {
      const model = await admin.import(path, { id: id || null, ...guard(ctx) }, ctx.signal);
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

/**
 * An administrator with the token from the data folder may use local files and private networks; one with a browser session
 * (`isGuarded`) may not.
 */
function guard({ principal }: Pick<CallContext, "principal">): { readonly isGuarded: boolean } {
  return { isGuarded: sessionIdOf(principal) !== null };
}

function foundFields({ approximateBytes, downloads, likes, license, kind, ...found }: FoundModel) {
  return {
    ...found,
    quantizations: [...found.quantizations],
    kind: kind === null ? StoredModelKind.UNSPECIFIED : kindNumbers[kind],
    approximateBytes: BigInt(approximateBytes ?? 0),
    downloads: BigInt(downloads ?? 0),
    likes: BigInt(likes ?? 0),
    license: license ?? "",
  };
}

const kindNumbers = { chat: StoredModelKind.CHAT, embedding: StoredModelKind.EMBEDDING } as const;

/** Audit record of a pull that has succeeded; the actor is who started it. */
export function recordPull(
  audit: Pick<Audit, "record">,
  { principal, address }: AuditSource,
  { id, source, sha256 }: StoredModel,
): Promise<void> {
  return audit.record({ principal, address }, "model.pull", id, { source, sha256 });
}

const stateNumbers: Readonly<Record<PullState, PullStateNumber>> = {
  downloading: PullStateNumber.DOWNLOADING,
  loading: PullStateNumber.LOADING,
  succeeded: PullStateNumber.SUCCEEDED,
  failed: PullStateNumber.FAILED,
  cancelled: PullStateNumber.CANCELLED,
};

function pullFields({ source, state, problem, ...pull }: ModelPull) {
  return {
    id: pull.id,
    source: source ?? "",
    state: stateNumbers[state],
    receivedBytes: BigInt(pull.receivedBytes),
    totalBytes: BigInt(pull.totalBytes ?? 0),
    bytesPerSecond: BigInt(pull.bytesPerSecond ?? 0),
    startedAt: timestampFromMs(pull.startedAtMs),
    endedAt: timestampOf(pull.endedAtMs),
    problem: problem ?? "",
  };
}
