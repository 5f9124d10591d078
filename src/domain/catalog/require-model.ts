import type { Principal } from "../call/principal.js";
import { ServiceError } from "../call/service-error.js";
import type { Catalog } from "./catalog.js";
import type { CatalogModel } from "./catalog-model.js";
import type { Capability } from "./model-definition.js";

const startingRetryMs = 1_000;

/** The model, or the one 404 for a model that does not exist and one that the key may not use (ERR-5, MODEL-7). */
export function requireModel(catalog: Catalog, id: string, principal: Principal): CatalogModel {
  const model = catalog.find(id, principal);
  if (model !== null) return model;
  if (!catalog.isComplete) {
    throw new ServiceError("model_loading", "The service is starting: not all of its models are listed yet.", {
      retryAfterMs: startingRetryMs,
    });
  }
  throw new ServiceError(
    "model_not_found",
    `The model '${id}' does not exist or you do not have access to it. GET /v1/models lists yours.`,
    {
      param: "model",
    },
  );
}

const routes: Record<Capability, string> = {
  chat: "/v1/chat/completions",
  completions: "/v1/completions",
  embeddings: "/v1/embeddings",
};

/** Refuses chat with an embedding model and the like (GEN-13). A model that says nothing yet is left to its engine. */
export function requireCapability(model: CatalogModel, capability: Capability): void {
  const { capabilities } = model;
  if (capabilities.length === 0 || capabilities.includes(capability)) return;
  const usable = capabilities.map((offered) => routes[offered]).join(", ");
  throw new ServiceError(
    "model_not_supported",
    `The model '${model.id}' does not do ${capability}; it can be used with ${usable}.`,
    {
      param: "model",
    },
  );
}
