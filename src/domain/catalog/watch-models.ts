import { create } from "@bufbuild/protobuf";
import {
  type WatchModelsResponse,
  WatchModelsResponseSchema,
} from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";
import { errorOfEnd } from "../call/call-context.js";
import type { Principal } from "../call/principal.js";
import type { Catalog } from "./catalog.js";

/** The whole list of what the principal may use, then every change of it, until the signal aborts. */
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

/** Remembers that something happened until somebody asks. */
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
