import type { Clock, Logger } from "../call/ports.js";
import { refuse, ServiceError } from "../call/service-error.js";
import { type ModelPull, Pull } from "./model-pull.js";
import type { ModelStore, PulledModel, PullProgress, PullRequest } from "./model-store.js";

export interface ModelPullsDeps {
  readonly store: Pick<ModelStore, "pull" | "idOf" | "shownSource" | "unfinishedPulls">;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly log: Logger;
}

/** Called after a download: loads the model and records the pull. Rejects with ServiceError. */
export type AfterDownload = (pulled: PulledModel) => Promise<void>;

/** Maximum number of pulls that run at the same time; further ones are rejected. */
const runningMax = 16;
/** Maximum number of ended pulls in lists. */
const endedMax = 20;

/**
 * Pulls of models by administrators. A pull continues when its caller leaves, callers with the same request share it, and a
 * pull that was interrupted by the end of the process is resumed at the next start. Downloads that are part of loading a
 * model are also listed; they end with the load.
 */
export class ModelPulls {
  readonly #deps: ModelPullsDeps;
  /** Running and ended pulls, in the order of their start. */
  #pulls: readonly Pull[] = [];
  readonly #closing = new AbortController();
  /** Resolves after the last write to the store's list of unfinished pulls. The writes run one after the other. */
  #saved: Promise<void> = Promise.resolve();

  constructor(deps: ModelPullsDeps) {
    this.#deps = deps;
  }

  /** Running pulls and the last 20 that ended, newest first. */
  list(): readonly ModelPull[] {
    return [...this.#pulls].reverse().map((pull) => pull.shown());
  }

  /**
   * Starts a pull, or joins the running one of the same request. Rejects with `conflict` when the model is pulled from
   * another source, or when 16 pulls run. The pull itself never rejects; `follow` does.
   */
  start(request: PullRequest, after: AfterDownload): Pull {
    const id = request.id ?? this.#deps.store.idOf(request.source ?? "");
    const running = this.#pulls.filter((pull) => pull.isRunning && pull.isPersistent);
    const same = running.find((pull) => pull.id === id);
    if (same?.isFor(request) === true) return same;
    if (same !== undefined) {
      throw new ServiceError("conflict", `'${id}' is being pulled from another source: wait for it, or cancel it.`);
    }
    if (running.length >= runningMax) {
      throw new ServiceError("conflict", `${runningMax} pulls run already: wait for one of them, or cancel one.`);
    }
    const pull = this.#add(request, id, true);
    const signal = AbortSignal.any([pull.cancelled, this.#closing.signal]);
    pull.ended = this.#run(pull, after, signal);
    return pull;
  }

  /**
   * Downloads a model as part of loading it; the load aborts the download through `signal`. Rejects as `ModelStore.pull`
   * does.
   */
  async download(
    request: PullRequest,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<PulledModel> {
    const pull = this.#add(request, request.id ?? this.#deps.store.idOf(request.source ?? ""), false);
    const listener = (): void => onProgress(pull.progress);
    pull.listeners.add(listener);
    try {
      const pulled = await this.#fetch(pull, AbortSignal.any([signal, pull.cancelled]));
      this.#end(pull, "succeeded", null);
      return pulled;
    } catch (error) {
      this.#end(pull, signal.aborted || pull.cancelled.aborted ? "cancelled" : "failed", error);
      throw error;
    }
  }

  /**
   * Cancels the running pull of a model, and a running download that is part of loading it. Rejects with `not_found` when
   * there is none.
   */
  async cancel(id: string): Promise<ModelPull> {
    const running = this.#pulls.filter((pull) => pull.isRunning && pull.id === id);
    const [first] = running;
    if (first === undefined) return refuse("not_found", "id", `No pull of the model '${id}' is running.`);
    for (const pull of running) pull.cancel();
    await Promise.all(running.map((pull) => pull.ended));
    return first.shown();
  }

  /** Starts the pulls that the end of an earlier process interrupted. */
  async resume(after: AfterDownload): Promise<void> {
    for (const request of await this.#deps.store.unfinishedPulls.read()) {
      const { id } = this.start(request, after);
      this.#deps.log.info({ model: id }, "resuming the pull of a model");
    }
  }

  /** Interrupts the running pulls, which the next start resumes. */
  async close(): Promise<void> {
    this.#closing.abort(
      new ServiceError("server_shutting_down", "The service is stopping; its next start resumes the pull."),
    );
    await Promise.all(this.#pulls.map((pull) => pull.ended));
    await this.#saved;
  }

  #add(request: PullRequest, id: string, isPersistent: boolean): Pull {
    const { clock, store } = this.#deps;
    const shownSource = request.source === null ? null : store.shownSource(request.source);
    const pull = new Pull({ request, id, shownSource, isPersistent }, clock);
    const former = this.#pulls.filter((one) => one.isRunning || one.id !== id);
    const ended = former.filter((one) => !one.isRunning).slice(-endedMax);
    this.#pulls = [...former.filter((one) => one.isRunning || ended.includes(one)), pull];
    return pull;
  }

  async #run(pull: Pull, after: AfterDownload, signal: AbortSignal): Promise<void> {
    this.#saveUnfinished();
    try {
      const pulled = await this.#fetch(pull, signal);
      pull.loads(pulled);
      await after(pulled);
      this.#end(pull, "succeeded", null);
      this.#deps.log.info({ model: pull.id }, "model is pulled");
    } catch (error) {
      this.#end(pull, pull.cancelled.aborted ? "cancelled" : "failed", error);
    }
    if (!this.#closing.signal.aborted) this.#saveUnfinished();
  }

  #fetch(pull: Pull, signal: AbortSignal): Promise<PulledModel> {
    return this.#deps.store.pull(pull.request, (progress) => pull.received(progress), signal);
  }

  #end(pull: Pull, state: "succeeded" | "failed" | "cancelled", error: unknown): void {
    pull.finish(state, error);
    // A request that was rejected before any download is a mistake of its caller, and is not listed as a pull.
    const isRejected = error instanceof ServiceError && error.code !== "upstream_error" && !pull.hasProgress;
    if (isRejected) this.#pulls = this.#pulls.filter((one) => one !== pull);
    if (state === "failed" && !isRejected && pull.isPersistent && !this.#closing.signal.aborted) {
      this.#deps.log.warn({ model: pull.id, err: error }, "a pull failed");
    }
  }

  #saveUnfinished(): void {
    const requests = this.#pulls.filter((pull) => pull.isRunning && pull.isPersistent).map(({ request }) => request);
    const save = (): Promise<void> => this.#deps.store.unfinishedPulls.write(requests);
    this.#saved = this.#saved.then(save).catch((err: unknown) => {
      this.#deps.log.warn({ err }, "the list of pulls cannot be written: a restart will not resume them");
    });
  }
}
