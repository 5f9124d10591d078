import { create } from "@bufbuild/protobuf";
import { CatalogService, GetModelResponseSchema } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Core } from "../core.js";
import { type RpcService, rpcService } from "./rpc-service.js";

/** `unified.catalog.v1.CatalogService` on the core. */
export function createCatalogService(core: Core): RpcService {
  return rpcService(CatalogService, {
    listModels: (request, ctx) => core.listModels(request, ctx),
    async getModel({ id }, ctx) {
      return create(GetModelResponseSchema, { model: await core.getModel(id, ctx) });
    },
    async watchModels(_request, ctx) {
      return { items: core.watchModels(ctx) };
    },
  });
}
