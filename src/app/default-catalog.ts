import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../domain/call/ports.js";
import type { Catalog } from "../domain/catalog/catalog.js";
import type { CatalogModel } from "../domain/catalog/catalog-model.js";
import type { ModelStore } from "../domain/catalog/model-store.js";
import { type Engines, llamaDefinition, toKeptModelDefinition } from "./model-definitions.js";

export interface DefaultCatalogDeps {
  readonly catalog: Catalog;
  readonly engines: Engines;
  readonly store: Pick<ModelStore, "list" | "defaults" | "idOf">;
  /** Source of the chat model that `--model` names, in the place of the default one. */
  readonly chatSource: string | null;
  readonly log: Logger;
}

/** Models on their way into the catalog. */
export interface Filling {
  /** Settles when it is known which chat model there will be: the first choice, or what stands in for it. */
  readonly chosen: Promise<void>;
  /** Settles when all of it is loaded or has failed. */
  readonly loaded: Promise<void>;
}

/**
 * The catalog of a service whose configuration names no models: what is kept on this machine; where that has no chat or
 * no embedding model, the default one, which its engine fetches.
 */
export function fillDefaultCatalog(deps: DefaultCatalogDeps): Filling {
  let choose = (): void => {};
  const chosen = new Promise<void>((resolve) => {
    choose = resolve;
  });
  return { chosen, loaded: fill(deps, choose).finally(choose) };
}

async function fill(deps: DefaultCatalogDeps, choose: () => void): Promise<void> {
  const { catalog, engines, store, chatSource } = deps;
  const kept = await store.list();
  const has = (kind: "chat" | "embedding"): boolean => kept.some((model) => model.kind === kind);
  const loads: Promise<unknown>[] = [catalog.replace(kept.map((model) => toKeptModelDefinition(model, engines)))];
  if (chatSource !== null || has("chat")) choose();
  if (chatSource !== null) {
    loads.push(catalog.put(llamaDefinition(store.idOf(chatSource), chatSource, engines)));
  } else if (!has("chat")) {
    loads.push(putFirstThatLoads(deps, choose));
  }
  if (!has("embedding")) {
    loads.push(catalog.put(toKeptModelDefinition({ id: store.defaults.embedding, kind: "embedding" }, engines)));
  }
  await Promise.all(loads);
}

const failsAtOnceMs = 1_000;

/** Never one model under the name of another: each default has its own id. */
async function putFirstThatLoads(
  { catalog, engines, store, log }: DefaultCatalogDeps,
  choose: () => void,
): Promise<void> {
  for (const [i, id] of store.defaults.chat.entries()) {
    const put = catalog.put(toKeptModelDefinition({ id, kind: "chat" }, engines));
    // The last one is what there is, unless it fails at once, as it does where nothing can be fetched at all.
    if (i === store.defaults.chat.length - 1) {
      void Promise.race([put, delay(failsAtOnceMs, undefined, { ref: false })]).then(choose);
    }
    const model = await put;
    if (!model.hasFailed) return warnOfFallback(model, i, log);
  }
  log.error(
    {},
    "there is no chat model. Fetch one from a mirror: HF_ENDPOINT=https://mirror.example uis models pull hf:owner/repo/file.gguf@revision; " +
      "or import a file: uis models import FILE; or configure another engine in uis.yaml",
  );
}

function warnOfFallback(model: CatalogModel, position: number, log: Logger): void {
  if (position === 0) return;
  log.warn({ model: model.id }, "the first choice could not be fetched: small fallback model, demonstration quality");
}
