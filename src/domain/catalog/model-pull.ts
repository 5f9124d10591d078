import type { AbortFlag } from "../../lib/abort-source.js";
import { errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import type { PulledModel, PullProgress, PullRequest } from "./model-store.js";
import { TransferRate } from "./transfer-rate.js";

/** Stage of a running pull, or outcome of an ended one. A pull is the download of a model. */
export type PullState = "downloading" | "loading" | "succeeded" | "failed" | "cancelled";

/** A download of a model, as lists show it. */
export interface ModelPull {
  /** Id of the model in requests. */
  readonly id: string;
  /** Null: a default model named by its id alone. */
  readonly source: string | null;
  readonly state: PullState;
  readonly receivedBytes: number;
  /** Null while unknown. */
  readonly totalBytes: number | null;
  /** Average of the last 5 s; null while unknown. */
  readonly bytesPerSecond: number | null;
  readonly startedAtMs: number;
  /** Null while it runs. */
  readonly endedAtMs: number | null;
  /** Why it failed; null otherwise. */
  readonly problem: string | null;
}

type PullClock = Pick<Clock, "now" | "monotonic">;

interface PullFacts {
  readonly request: PullRequest;
  readonly id: string;
  readonly shownSource: string | null;
  /** Whether it is started by an administrator and resumed after a restart. */
  readonly isPersistent: boolean;
}

/** A pull that runs or has ended. */
export class Pull {
  readonly id: string;
  readonly request: PullRequest;
  readonly isPersistent: boolean;
  /** Called after each change while it runs. */
  readonly listeners = new Set<() => void>();
  progress: PullProgress = { receivedBytes: 0, totalBytes: null };
  hasProgress = false;
  state: PullState = "downloading";
  /** Resolves when it has ended. */
  ended: Promise<void> = Promise.resolve();
  readonly #facts: PullFacts;
  readonly #clock: PullClock;
  readonly #startedAtMs: number;
  readonly #cancel = new AbortController();
  #endedAtMs: number | null = null;
  #error: unknown = null;
  #pulled: PulledModel | null = null;
  readonly #rate: TransferRate;

  constructor(facts: PullFacts, clock: PullClock) {
    this.id = facts.id;
    this.request = facts.request;
    this.isPersistent = facts.isPersistent;
    this.#facts = facts;
    this.#clock = clock;
    this.#startedAtMs = clock.now();
    this.#rate = new TransferRate(() => clock.monotonic());
  }

  get isRunning(): boolean {
    return this.state === "downloading" || this.state === "loading";
  }

  get cancelled(): AbortSignal {
    return this.#cancel.signal;
  }

  isFor({ source, sha256 }: PullRequest): boolean {
    return this.request.source === source && this.request.sha256 === sha256;
  }

  cancel(): void {
    this.#cancel.abort(new ServiceError("conflict", `The pull of '${this.id}' was cancelled.`));
  }

  received(progress: PullProgress): void {
    this.hasProgress = true;
    // A conversion receives no bytes.
    const isConverting = progress.stage === "converting";
    this.progress = isConverting ? { ...this.progress, stage: progress.stage } : progress;
    if (!isConverting) this.#rate.received(progress.receivedBytes);
    this.#changed();
  }

  loads(pulled: PulledModel): void {
    this.#pulled = pulled;
    this.state = "loading";
    this.#changed();
  }

  finish(state: "succeeded" | "failed" | "cancelled", error: unknown): void {
    this.state = state;
    this.#error = error;
    this.#endedAtMs = this.#clock.now();
  }

  /**
   * Resolves with the model once it is loaded, and calls `onChange` until then. Rejects with the pull's own error, or with
   * the reason of the caller's abort when `signal` aborts; the pull then continues.
   */
  async follow(onChange: (pull: Pull) => void, signal: AbortFlag): Promise<PulledModel> {
    if (signal.aborted) throw errorOfEnd(signal.reason);
    const listener = (): void => onChange(this);
    this.listeners.add(listener);
    if (this.isRunning && this.hasProgress) listener();
    let leave = (): void => {};
    const left = new Promise<void>((resolve) => {
      leave = resolve;
      signal.addEventListener("abort", leave);
    });
    await Promise.race([this.ended, left]);
    this.listeners.delete(listener);
    signal.removeEventListener("abort", leave);
    if (this.isRunning) throw errorOfEnd(signal.reason);
    if (this.state === "succeeded" && this.#pulled !== null) return this.#pulled;
    throw this.#error;
  }

  shown(): ModelPull {
    const { id, state, progress } = this;
    return {
      id,
      source: this.#facts.shownSource,
      state,
      ...progress,
      bytesPerSecond: state === "downloading" ? this.#rate.bytesPerSecond : null,
      startedAtMs: this.#startedAtMs,
      endedAtMs: this.#endedAtMs,
      problem: state !== "failed" ? null : this.#error instanceof Error ? this.#error.message : String(this.#error),
    };
  }

  #changed(): void {
    for (const listener of [...this.listeners]) listener();
  }
}
