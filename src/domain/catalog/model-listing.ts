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

/** Maximum and default page size. */
const pageSizeMax = 1_000;

/** One page of the principal's models, by id. The page token is the last id of the page before (AIP-158). */
export function listModels(catalog: Catalog, principal: Principal, request: ListModelsRequest): ListModelsResponse {
  if (request.pageSize < 0) {
    const message = `'page_size' must be 0 to ${pageSizeMax}, got ${request.pageSize}.`;
    throw new ServiceError("integer_below_min_value", message, { param: "page_size" });
  }
  const size = request.pageSize === 0 ? pageSizeMax : Math.min(request.pageSize, pageSizeMax);
  const models: Model[] = [];
  let nextPageToken = "";
  for (const model of catalog.visibleTo(principal)) {
    if (model.id <= request.pageToken) continue;
    if (models.length === size) {
      nextPageToken = models.at(-1)?.id ?? "";
      break;
    }
    models.push(model.toMessage());
  }
  // Not passed to `create`, which would examine each model.
  return Object.assign(create(ListModelsResponseSchema), { models, nextPageToken });
}

/** Yields the whole list of models that the principal may use, then each change, until the signal aborts. */
export async function* watchModels(
  catalog: Catalog,
  principal: Principal,
  signal: AbortSignal,
): AsyncIterable<WatchModelsResponse> {
  let known: ReadonlyMap<string, Model> | null = null;
  let hasChanged = false;
  let wake = (): void => {};
  const onChange = (): void => {
    hasChanged = true;
    wake();
  };
  const unsubscribe = catalog.onChange(onChange);
  signal.addEventListener("abort", onChange, { once: true });
  try {
    for (;;) {
      if (signal.aborted) throw errorOfEnd(signal.reason);
      hasChanged = false;
      const current = new Map(catalog.visibleTo(principal).map((model) => [model.id, model.toMessage()]));
      const models = [...current.values()].filter((model) => !sameModel(model, known?.get(model.id)));
      const removedIds = [...(known?.keys() ?? [])].filter((id) => !current.has(id));
      if (known === null || models.length > 0 || removedIds.length > 0) {
        yield create(WatchModelsResponseSchema, { models, removedIds });
      }
      known = current;
      while (!hasChanged) await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    unsubscribe();
    signal.removeEventListener("abort", onChange);
  }
}

function sameModel(a: Model, b: Model | undefined): boolean {
  return (
    b !== undefined &&
    a.created === b.created &&
    a.ownedBy === b.ownedBy &&
    a.contextLength === b.contextLength &&
    a.dimensions === b.dimensions &&
    a.toolCalling === b.toolCalling &&
    a.capabilities.join() === b.capabilities.join()
  );
}
