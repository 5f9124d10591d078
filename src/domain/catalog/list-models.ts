import { create } from "@bufbuild/protobuf";
import {
  type ListModelsRequest,
  type ListModelsResponse,
  ListModelsResponseSchema,
} from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Principal } from "../call/principal.js";
import { ServiceError } from "../call/service-error.js";
import type { Catalog } from "./catalog.js";

/** Models per page at most, and when the request names no number. */
const pageSizeMax = 1_000;

/** One page of what the principal may use, by id. The page token is the last id of the page before (AIP-158). */
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
