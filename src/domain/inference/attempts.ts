import { Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { errorOfEnd } from "../call/call-context.js";
import { ServiceError } from "../call/service-error.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { Deployment } from "../catalog/deployment.js";
import { type Capabilities, EngineError, type GenerateRequest } from "../engine/engine.js";
import { mayFailOver } from "../engine/engine-error.js";
import { affinityKey } from "../routing/affinity.js";
import type { RoutedRequest } from "../routing/pick.js";
import type { RoutedOwner } from "../routing/priority-queue.js";
import type { RetryBudget } from "../routing/retry-budget.js";
import type { Slot } from "../routing/waiting-room.js";
import { estimateTokens } from "./reservation.js";
import type { Run } from "./run.js";

/** The data of a request, in addition to its account and key, by which a deployment is chosen. */
export interface Route {
  /** Estimated tokens of prompt and answer. */
  readonly tokens: number;
  readonly affinityKey: number | null;
}

const noRoute: Route = Object.freeze({ tokens: 1, affinityKey: null });

/**
 * The tries of one prompt or input on the deployments of its model. After a failure another deployment is tried, as long as
 * an untried one is left and the model's retry budget allows it. If the model has only one deployment, that one is tried
 * again only after an upstream error of a server that has replicas.
 */
export class Attempts implements RoutedRequest<Deployment> {
  readonly owner: RoutedOwner;
  readonly tokens: number;
  readonly accepts: ((deployment: Deployment) => boolean) | null;
  readonly affinityKey: number | null;
  tried: Deployment[] | null = null;
  failure: ServiceError | null = null;
  /** Tries so far. */
  count = 0;
  readonly #model: CatalogModel;
  /** Retry budget of the requested model. Tries on its fallback models count against it, too. */
  readonly #retryBudget: RetryBudget;
  readonly #hasChoice: boolean;
  /** Whether outstanding tokens are counted: they decide between several deployments, and upstreams have a metric of them. */
  readonly #countsTokens: boolean;

  /** `route` is called only if outstanding tokens are counted, `can` only for deployments whose model is loaded. */
  constructor({ call, model, requestedModel }: Run, route: () => Route, can: (caps: Capabilities) => boolean) {
    this.#model = model;
    this.#retryBudget = requestedModel.retryBudget;
    this.owner = call.principal;
    this.#hasChoice = model.deployments.length > 1;
    this.#countsTokens = this.#hasChoice || model.hasUpstream;
    const { tokens, affinityKey } = this.#countsTokens ? route() : noRoute;
    this.tokens = tokens;
    this.affinityKey = affinityKey;
    this.accepts = this.#hasChoice ? ({ model: loaded }) => loaded !== null && can(loaded.caps) : null;
    if (this.#hasChoice || model.hasUpstream) this.#retryBudget.requested();
  }

  /**
   * Returns the slot of the next try, as a promise only if none is free. A `continuing` prompt (a further prompt of a
   * request that already runs) always queues, so that the first prompt of its request starts first. Throws or rejects as
   * WaitingRoom.acquire and CatalogModel.onceLoaded do.
   */
  next(signal: AbortFlag, continuing: boolean): Slot<Deployment> | Promise<Slot<Deployment>> {
    if (signal.aborted) throw errorOfEnd(signal.reason);
    this.count += 1;
    const { room } = this.#model;
    if (room.deployments.length === 0) return this.#onceLoaded(signal, continuing);
    return (continuing ? null : room.tryAcquire(this)) ?? room.acquire(this, signal, continuing);
  }

  /**
   * Call at the first content of a try. `firstTokenMs`: time since the slot was granted; null if the answer has no first
   * token.
   */
  answered(slot: Slot<Deployment>, firstTokenMs: number | null, promptTokens: number): void {
    if (!this.#countsTokens) return;
    slot.succeeded(firstTokenMs);
    slot.processed(promptTokens);
  }

  /** Call for each further content. Subtracts `tokens` from the deployment's outstanding tokens. */
  produced(slot: Slot<Deployment>, tokens: number): void {
    if (this.#countsTokens) slot.processed(tokens);
  }

  /**
   * Records a failed try. Returns whether another try follows. `slot` null: the try failed before it had a slot.
   * `canRestart`: the client has received nothing of the answer.
   */
  failed(slot: Slot<Deployment> | null, error: ServiceError, canRestart: boolean, signal: AbortFlag): boolean {
    // Without a slot no deployment has failed: the waiting room waits for a slot of any deployment.
    if (slot === null || signal.aborted) return false;
    if (!this.#hasChoice) {
      const mayDiffer = slot.deployment.model?.hasReplicas === true && error.code === "upstream_error";
      return canRestart && mayDiffer && this.#retryBudget.take(this.count);
    }
    const { room } = this.#model;
    const cause = error.cause instanceof EngineError ? error.cause : null;
    // Operators see the engine's message; the message of `error` is written for the caller.
    const reason = cause?.message ?? error.message;
    const { ejection } = slot.deployment;
    if (error.code === "upstream_rate_limited") ejection.cool(error.retryAfterMs, reason);
    else if (mayFailOver(error) || error.code === "internal_error") {
      // The engine pauses the deployment while its upstream accepts no key; an ejection in addition would last longer.
      if (error.code !== "upstream_unauthorized") slot.failed(reason);
      if (cause !== null && cause.retryAfterMs !== null) ejection.cool(cause.retryAfterMs, reason);
    } else slot.succeeded(null);
    this.tried ??= [];
    this.tried.push(slot.deployment);
    this.failure = error;
    return canRestart && mayFailOver(error) && room.hasChoice(this) && this.#retryBudget.take(this.count);
  }

  async #onceLoaded(signal: AbortFlag, continuing: boolean): Promise<Slot<Deployment>> {
    await this.#model.onceLoaded(signal);
    if (this.#model.room.deployments.length === 0) throw allDrain();
    return this.#model.room.acquire(this, signal, continuing);
  }
}

/** Retry-After while no deployment of a model is in use. */
const drainRetryMs = 10_000;

function allDrain(): ServiceError {
  const why = "Every deployment of the model is drained: the operator has taken them out of use.";
  return new ServiceError("server_is_overloaded", why, { retryAfterMs: drainRetryMs });
}

/** The route of a prompt. All prompts of one conversation have the same affinity key. */
export function routeOfPrompt({ call, model }: Run, request: GenerateRequest): Route {
  const { affinity, id } = model;
  const { account } = call.principal;
  const tokens = estimateTokens(request);
  const session = request.passOn?.promptCacheKey ?? null;
  if (affinity === "none" || (affinity === "session" && session === null)) return { tokens, affinityKey: null };
  const { tools, beginning } = beginningOf(request);
  return { tokens, affinityKey: affinityKey({ account, session, model: id, tools, beginning }) };
}

/** Texts that stay equal while a conversation grows: the tools, and the messages up to the first one of the user. */
function beginningOf({ input }: GenerateRequest): { readonly tools: string; readonly beginning: readonly string[] } {
  if (!("messages" in input)) {
    const { prompt } = input;
    return { tools: "", beginning: [typeof prompt === "string" ? prompt : prompt.slice(0, 256).join(" ")] };
  }
  const first = input.messages.findIndex(({ role }) => role === Role.USER);
  const messages = first < 0 ? input.messages : input.messages.slice(0, first + 1);
  const beginning = messages.flatMap(({ content }) =>
    content.flatMap(({ part }) => (part.case === "text" ? [part.value] : [])),
  );
  const tools = input.tools.map((tool) => `${tool.function?.name} ${tool.function?.parametersJson ?? ""}`).join("\n");
  return { tools, beginning };
}
