import type { ServiceLimits } from "../../contract/limits.js";
import type { Clock, Logger } from "../call/ports.js";
import { EngineError, type LoadedModel, type LoadProgress } from "../engine/engine.js";
import { ModelQueue } from "../engine/model-queue.js";
import type { DeploymentDefinition } from "./model-definition.js";

type LoadState =
  | { readonly stage: "loading"; readonly progress: LoadProgress }
  | { readonly stage: "loaded"; readonly model: LoadedModel }
  | { readonly stage: "failed"; readonly error: EngineError };

/** Grace for running requests of a removed deployment. */
const unloadGraceMs = 120_000;

/** A model loaded in an engine, with the queue in front of it. */
export class Deployment {
  /** `<model>/<position>`, for logs and headers. */
  readonly id: string;
  readonly queue: ModelQueue;
  readonly weight: number;
  readonly contextLength: number;
  /** Resolves when loading ends; never rejects. */
  readonly loadEnded: Promise<void>;
  readonly #abortLoad = new AbortController();
  readonly #log: Logger;
  #state: LoadState = { stage: "loading", progress: { stage: "loading", share: 0 } };

  constructor(
    deps: { clock: Clock; log: Logger; limits: Pick<ServiceLimits, "queueWaitMs"> },
    modelId: string,
    position: number,
    definition: DeploymentDefinition,
  ) {
    this.id = `${modelId}/${position}`;
    this.weight = definition.weight;
    this.contextLength = definition.contextLength;
    this.#log = deps.log;
    this.queue = new ModelQueue(deps.clock, {
      slots: definition.slots,
      waitingMax: definition.queueMax,
      limits: deps.limits,
    });
    this.loadEnded = this.#load(modelId, definition);
  }

  /** The loaded model; null while it loads or when that failed. */
  get model(): LoadedModel | null {
    return this.#state.stage === "loaded" ? this.#state.model : null;
  }

  /** Load progress; null once finished. */
  get progress(): LoadProgress | null {
    return this.#state.stage === "loading" ? this.#state.progress : null;
  }

  /** Load error; null while loading and when loaded. */
  get failure(): EngineError | null {
    return this.#state.stage === "failed" ? this.#state.error : null;
  }

  /** Running and waiting requests per slot and weight. */
  get load(): number {
    return this.queue.load / this.weight;
  }

  /** Lets running requests finish, then frees the engine's memory. */
  async retire(): Promise<void> {
    this.#abortLoad.abort(new EngineError("aborted", "the deployment left the catalog"));
    await this.loadEnded;
    await this.model?.unload(unloadGraceMs);
  }

  async #load(modelId: string, definition: DeploymentDefinition): Promise<void> {
    const spec = {
      id: modelId,
      contextLength: definition.contextLength,
      slots: definition.slots,
      options: definition.options,
    };
    const onProgress = (progress: LoadProgress): void => {
      if (this.#state.stage === "loading") this.#state = { stage: "loading", progress };
    };
    try {
      const model = await definition.engine.load(spec, onProgress, this.#abortLoad.signal);
      this.#state = { stage: "loaded", model };
    } catch (cause) {
      const error =
        cause instanceof EngineError
          ? cause
          : new EngineError("internal", "the engine failed to load the model", { cause });
      this.#state = { stage: "failed", error };
      this.#log.error({ deployment: this.id, err: cause }, "model failed to load");
    }
  }
}
