import { create } from "@bufbuild/protobuf";
import {
  type ListModelsRequest,
  type ListModelsResponse,
  ListModelsResponseSchema,
  type WatchModelsResponse,
  WatchModelsResponseSchema,
} from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";
import { errorOfEnd } from "../call/call-context.js";
import type { Principal } from "../call/principal.js";
import { ServiceError } from "../call/service-error.js";
import type { Catalog } from "./catalog.js";
import type { CatalogModel } from "./catalog-model.js";
import type { Capability } from "./model-definition.js";

/** Maximum and default page size. */
const pageSizeMax = 1_000;

/**
 * One page of the models that the principal may use, by id. The page token is the last id of the previous page
 * (AIP-158).
 */
export function listModels(catalog: Catalog, principal: Principal, request: ListModelsRequest): ListModelsResponse {
  if (request.pageSize < 0) {
    throw new ServiceError(
      "integer_below_min_value",
      `'page_size' must be 0 to ${pageSizeMax}, got ${request.pageSize}.`,
      { param: "page_size" },
    );
  }
  const size = request.pageSize === 0 ? pageSizeMax : Math.min(request.pageSize, pageSizeMax);
  const rest = catalog.visibleTo(principal).filter((model) => model.id > request.pageToken);
  const page = rest.slice(0, size);
  return create(ListModelsResponseSchema, {
    models: page.map((model) => model.toMessage()),
    nextPageToken: rest.length > size ? (page.at(-1)?.id ?? "") : "",
  });
}

/** Yields the whole list of models that the principal may use, then each change, until the signal aborts. */
export async function* watchModels(
  catalog: Catalog,
  principal: Principal,
  signal: AbortSignal,
): AsyncIterable<WatchModelsResponse> {
  let known = new Map<string, Model>();
  let first = true;
  const changes = new ChangeBell();
  const unsubscribe = catalog.onChange(() => changes.ring());
  const onAbort = (): void => changes.ring();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    for (;;) {
      if (signal.aborted) throw errorOfEnd(signal.reason);
      const current = new Map(catalog.visibleTo(principal).map((model) => [model.id, model.toMessage()]));
      const models = [...current.values()].filter((model) => !sameModel(model, known.get(model.id)));
      const removedIds = [...known.keys()].filter((id) => !current.has(id));
      if (first || models.length > 0 || removedIds.length > 0)
        yield create(WatchModelsResponseSchema, { models, removedIds });
      first = false;
      known = current;
      await changes.rung();
    }
  } finally {
    unsubscribe();
    signal.removeEventListener("abort", onAbort);
  }
}

/** Remembers that something changed until it is read. */
class ChangeBell {
  #pending = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.#pending = true;
    this.#wake?.();
  }

  async rung(): Promise<void> {
    while (!this.#pending) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#pending = false;
  }
}

function sameModel(a: Model, b: Model | undefined): boolean {
  return (
    b !== undefined &&
    a.created === b.created &&
    a.ownedBy === b.ownedBy &&
    a.contextLength === b.contextLength &&
    a.dimensions === b.dimensions &&
    a.capabilities.join() === b.capabilities.join()
  );
}

const startingRetryMs = 1_000;

/** Returns the model, or throws the same 404 for an unknown model and one that the key may not use (ERR-5, MODEL-7). */
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
    `The model '${id}' does not exist or you do not have access to it. The list of models shows yours.`,
    {
      param: "model",
    },
  );
}

/**
 * Throws for chat with an embedding model and the like (GEN-13). A model that is not loaded is checked by its engine later.
 */
export function requireCapability(model: CatalogModel, capability: Capability): void {
  const { capabilities } = model;
  if (capabilities.length === 0 || capabilities.includes(capability)) return;
  throw new ServiceError(
    "model_not_supported",
    `The model '${model.id}' does not do ${capability}; it can be used for ${capabilities.join(", ")}.`,
    {
      param: "model",
    },
  );
}
