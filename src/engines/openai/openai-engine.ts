import { isDeepStrictEqual } from "node:util";
import type { Clock, IdSource, Logger } from "../../domain/call/ports.js";
import {
  type Engine,
  EngineError,
  type EngineKind,
  type LoadedModel,
  type ModelSpec,
} from "../../domain/engine/engine.js";
import type { ListedFacts, UpstreamDefinition, UpstreamModel, UpstreamObserver } from "../../domain/engine/upstream.js";
import { deploymentBounds } from "../../domain/engine/upstream-forms.js";
import { type AbortFlag, AbortSource } from "../../lib/abort-source.js";
import { Upstream } from "./connection/upstream.js";
import { discoverModels, isHealthy } from "./discovery.js";
import { OpenAiModel, type OpenAiModelSpec } from "./openai-model.js";
import { capabilitiesOf, kindProfiles, type ModelFacts, passedFieldsOf } from "./protocol/kinds.js";

export interface OpenAiEngineDeps {
  readonly clock: Clock;
  /** Clock for timers that belong to no request of a client: discovery and health checks. */
  readonly backgroundClock: Clock;
  readonly ids: Pick<IdSource, "text">;
  readonly log: Logger;
  readonly onOutcome?: UpstreamObserver;
}

/** Runs models on servers with an OpenAI-compatible API or with Anthropic's API. */
export const openAiEngine = {
  name: "openai",
  settings: ["upstream", "model", "pass_through"],
  defaults: { slots: deploymentBounds.slots.default, slotsMax: deploymentBounds.slots.max },
  create(deps: OpenAiEngineDeps): Engine {
    const upstreams = new SharedUpstreams(deps);
    return { load: (spec, _, signal) => load(deps, upstreams, spec, signal) };
  },
} as const satisfies EngineKind<OpenAiEngineDeps>;

/** Maximum wait of a load for the list of models; afterwards the model is used without it. */
const discoveryWaitMs = 2_000;
/** Delay before the list of an unreachable server is requested again; doubles up to the maximum. */
const retryMs = 1_000;
const retryMaxMs = 60_000;

/**
 * Loads a model without waiting long for its server. While the server is unreachable, requests fail, so that other
 * deployments answer them, and the list of models is requested again until it is read.
 */
async function load(
  deps: OpenAiEngineDeps,
  upstreams: SharedUpstreams,
  { id, deployment, slots, options }: ModelSpec,
  signal: AbortSignal,
): Promise<LoadedModel> {
  const { upstream: settings, model, passThrough, contextLength, capabilities, listed } = options as UpstreamModel;
  const { kind } = settings;
  const upstream = upstreams.take(settings);
  const { dialect } = kindProfiles[kind];
  const facts: ModelFacts = {
    model,
    passThrough,
    contextLength: contextLength ?? listed?.contextLength ?? null,
    embeddingDims: listed?.embeddingDims ?? null,
    images: listed?.images ?? null,
    capabilities,
    messages: listed?.messages,
  };
  const spec: OpenAiModelSpec = {
    id,
    slots,
    body: { model, dialect, passThrough: [...new Set([...passThrough, ...passedFieldsOf(kind)])] },
    messages: listed?.messages ?? null,
    caps: { ...capabilitiesOf(kind, facts), native: settings.native },
  };
  const stop = new AbortSource();
  const learn = (found: ListedFacts): void => {
    spec.messages = found.messages ?? null;
    const learned = { ...facts, ...found, contextLength: contextLength ?? found.contextLength };
    spec.caps = { ...capabilitiesOf(kind, learned), native: settings.native };
  };
  if (listed === undefined && upstream.profile.listsModels) {
    await learnWithin(deps, upstream, model, learn, stop, signal);
  }
  if (signal.aborted) {
    stop.abort(signal.reason);
    await upstreams.release(upstream);
    throw new EngineError("aborted", "the load was aborted");
  }
  return new OpenAiModel(
    {
      clock: deps.clock,
      ids: deps.ids,
      upstream,
      onOutcome: (outcome, firstByteMs) =>
        deps.onOutcome?.({ deployment, upstream: settings.name }, outcome, firstByteMs),
      isReachable: (abort) => upstreams.isHealthy(upstream, abort),
      onUnloaded: async () => {
        stop.abort(new Error("unloaded"));
        await upstreams.release(upstream);
      },
    },
    spec,
  );
}

/** Resolves when the server has answered, or after `discoveryWaitMs`. Requests for the list continue in the background. */
function learnWithin(
  { backgroundClock: clock, log }: OpenAiEngineDeps,
  upstream: Upstream,
  model: string,
  learn: (found: ListedFacts) => void,
  stop: AbortSource,
  signal: AbortSignal,
): Promise<void> {
  const { name } = upstream.settings;
  return new Promise((resolve) => {
    let cancelRetry = (): void => {};
    const cancelWait = clock.after(discoveryWaitMs, resolve);
    const waited = (): void => {
      cancelWait();
      resolve();
    };
    signal.addEventListener("abort", waited);
    stop.addEventListener("abort", () => {
      cancelRetry();
      waited();
    });
    const discover = (delayMs: number): void => {
      discoverModels(upstream, clock, stop)
        .then(
          (models) => {
            // llama.cpp has one model and accepts every model name.
            const isOnly = upstream.settings.kind === "llama-server" && models.length === 1;
            const found = models.find((listed) => listed.id === model) ?? (isOnly ? models[0] : undefined);
            if (found !== undefined) learn(found);
            else log.warn({ upstream: name, model }, "the upstream does not list the model");
          },
          (error: unknown) => {
            if (stop.aborted) return;
            const code = error instanceof EngineError ? error.code : "internal";
            // Logged once: later requests show whether the upstream is still unreachable.
            if (delayMs === retryMs) {
              log.warn({ upstream: name, model, error: code }, "the upstream does not list its models; retrying");
            }
            cancelRetry = clock.after(delayMs, () => discover(Math.min(2 * delayMs, retryMaxMs)));
          },
        )
        .finally(waited);
    };
    discover(retryMs);
  });
}

/** The upstreams in use. Models with equal definitions share one, with its connections and the holds of its keys. */
class SharedUpstreams {
  readonly #deps: Pick<OpenAiEngineDeps, "clock" | "backgroundClock">;
  readonly #inUse = new Map<Upstream, SharedUpstream>();

  constructor(deps: Pick<OpenAiEngineDeps, "clock" | "backgroundClock">) {
    this.#deps = deps;
  }

  take(definition: UpstreamDefinition): Upstream {
    for (const [upstream, shared] of this.#inUse) {
      if (!isDeepStrictEqual(upstream.settings, definition)) continue;
      shared.users += 1;
      return upstream;
    }
    const { clock, backgroundClock } = this.#deps;
    const upstream = new Upstream(clock, definition, backgroundClock);
    this.#inUse.set(upstream, { users: 1, check: null });
    return upstream;
  }

  /** Whether the upstream can serve requests. Models that are checked at the same time share one request. */
  isHealthy(upstream: Upstream, signal: AbortFlag): Promise<boolean> {
    const shared = this.#inUse.get(upstream);
    if (shared === undefined) return Promise.resolve(false);
    if (shared.check !== null && !shared.check.signal.aborted) return shared.check.result;
    const check = { signal, result: isHealthy(upstream, signal) };
    shared.check = check;
    const ended = (): void => {
      if (shared.check === check) shared.check = null;
    };
    check.result.then(ended, ended);
    return check.result;
  }

  /** Closes the upstream after its last model. */
  async release(upstream: Upstream): Promise<void> {
    const shared = this.#inUse.get(upstream);
    if (shared === undefined) return;
    shared.users -= 1;
    if (shared.users > 0) return;
    this.#inUse.delete(upstream);
    await upstream.close();
  }
}

interface SharedUpstream {
  /** Number of models that use the upstream. */
  users: number;
  /** The running health check; null: none. */
  check: { readonly signal: AbortFlag; readonly result: Promise<boolean> } | null;
}
