import type { Clock } from "../../domain/call/ports.js";
import { EngineError, type GenEvent } from "../../domain/engine/engine.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import type { CallEnd, ChildRequest, ChildSession } from "./child-session.js";
import { abortedError, type ProducedTokens } from "./protocol/protocol.js";
import type { Supervisor } from "./supervisor.js";

export interface ChildCall {
  readonly request: ChildRequest;
  /** Time that the caller had waited before this call. */
  readonly queueMs: number;
  readonly progress: CallProgress;
  /** Called with each event of the call, in order. */
  onEvent(event: GenEvent): void;
  /** The call's slot. Released before the call ends or, for an aborted call, once the child has ended it. */
  readonly slot: HeldSlot;
}

export interface CallDeps {
  readonly clock: Clock;
  readonly supervisor: Supervisor;
  /** Maximum wait for the first output of the next child after a child is lost, counted from the lost child's last message. */
  readonly outputMaxMs: number;
}

export type CallAnswer = Exclude<CallEnd, { type: "lost" | "failed" }>;

/** `unanswered`: the child did not confirm an abort in time; `late`: no output in time. */
type RunEnd = CallEnd | { readonly type: "unanswered" | "late" };

/** Time for the child to report the usage of an aborted call. */
const abortAnswerMs = 1_000;

/**
 * Runs one call on the model's child. A call that loses its child before any output is run once more, on the next child; a
 * call that begins without a child waits for one. In both cases the first output, or the end of a call without events, must
 * come within `outputMaxMs` of the loss or of the call's beginning, whichever was later. A second loss ends the call. Rejects
 * with EngineError: the child's own, `engine_restarted`, `aborted`, or the supervisor's if there is no child.
 */
export async function runOnChild(deps: CallDeps, call: ChildCall, signal: AbortFlag): Promise<CallAnswer> {
  const { progress, slot } = call;
  let isEnded = true;
  try {
    const end = await runUntilEnd(deps, call, signal);
    isEnded = end.type !== "unanswered" && end.type !== "late";
    switch (end.type) {
      case "lost":
      case "late":
        if (signal.aborted) throw abortedError(signal, progress.produced);
        // A call with output cannot be repeated: the caller has already received the beginning of the answer.
        throw new EngineError("engine_restarted", "the engine's process ended during the call", {
          retryable: !progress.hasOutput,
          usage: progress.produced,
        });
      case "unanswered":
        throw abortedError(signal, progress.produced);
      case "failed": {
        const { code, message, retryable, param, usage } = end.error;
        if (usage !== null) progress.correct(usage);
        const field = param === null ? {} : { param };
        throw new EngineError(code, message, { retryable, usage: progress.produced, ...field });
      }
      default:
        return end;
    }
  } finally {
    if (isEnded) slot.release();
  }
}

/** The end of the first try, or of the second if the first lost its child. */
async function runUntilEnd(deps: CallDeps, call: ChildCall, signal: AbortFlag): Promise<RunEnd> {
  const { clock, supervisor, outputMaxMs } = deps;
  const beganAtMs = clock.monotonic() - call.queueMs;
  const leftMs = (): number => Math.max(beganAtMs, supervisor.lostAtMs) + outputMaxMs - clock.monotonic();
  for (let isSecond = false; ; isSecond = true) {
    const mustHurry = isSecond || !supervisor.isReady;
    const session = await supervisor.session(signal, leftMs());
    if (signal.aborted) throw abortedError(signal, call.progress.produced);
    const end = await runOnce(clock, session, call, signal, mustHurry ? leftMs() : null);
    const mayRunAgain = !call.progress.hasOutput && !supervisor.isStopped && leftMs() > 0;
    if (end.type !== "lost" || isSecond || signal.aborted || !mayRunAgain) return end;
  }
}

/**
 * Runs the call on one child. `outputWithinMs` null: no limit. After an abort the child has a second to report the usage. If
 * that takes longer, or output is late, the caller stops waiting, but the call keeps its slot until the child has ended it.
 */
function runOnce(
  clock: Clock,
  session: ChildSession,
  call: ChildCall,
  signal: AbortFlag,
  outputWithinMs: number | null,
): Promise<RunEnd> {
  return new Promise((resolve) => {
    let cancelAbortTimer = (): void => {};
    let cancelOutputTimer = (): void => {};
    let isOver = false;
    const finish = (end: RunEnd): void => {
      isOver = true;
      cancelAbortTimer();
      cancelOutputTimer();
      signal.removeEventListener("abort", onAbort);
      resolve(end);
    };
    const endEarly = (): void => {
      call.slot.expectRelease();
      session.abort(number);
    };
    const onAbort = (): void => {
      cancelAbortTimer = clock.after(abortAnswerMs, () => finish({ type: "unanswered" }));
      endEarly();
    };
    const onLate = (): void => {
      endEarly();
      finish({ type: "late" });
    };
    const number = session.begin(call.request, {
      onEvent(event) {
        if (isOver) return;
        call.onEvent(event);
        if (call.progress.hasOutput) cancelOutputTimer();
      },
      onEnd(end) {
        if (isOver) call.slot.release();
        else finish(end);
      },
    });
    signal.addEventListener("abort", onAbort);
    if (outputWithinMs !== null) cancelOutputTimer = clock.after(Math.max(0, outputWithinMs), onLate);
  });
}

/** The progress of a call: whether it has output, and the tokens that it has consumed and produced. */
export class CallProgress {
  isAccepted = false;
  /** Whether the caller may have seen a part of the answer. */
  hasOutput = false;
  #promptTokens = 0;
  #cachedTokens = 0;
  #outTokens = 0;

  get produced(): ProducedTokens {
    return { promptTokens: this.#promptTokens, outTokens: this.#outTokens, cachedTokens: this.#cachedTokens };
  }

  note(event: GenEvent): void {
    if (event.type === "accepted") {
      this.isAccepted = true;
      this.#promptTokens = event.promptTokens ?? 0;
      this.#cachedTokens = event.cachedTokens;
      return;
    }
    this.hasOutput = true;
    this.#outTokens = event.outTokens;
  }

  /** Replaces the counts with those that the child reports at the end. */
  correct({ promptTokens, cachedTokens, outTokens }: ProducedTokens): void {
    this.#promptTokens = promptTokens;
    this.#cachedTokens = cachedTokens;
    this.#outTokens = outTokens;
  }
}

/** The slot of one call. */
export interface HeldSlot {
  /** Must be called when the child was asked to end the call early: other calls may then wait for the slot. */
  expectRelease(): void;
  /** Must be called once, when the child no longer runs the call. */
  release(): void;
}

/**
 * The slots of a child, as counted by the server. A slot stays taken until the child has ended the call, which can be
 * after its caller got the error of an abort: the child first completes its current step.
 */
export class CallSlots {
  busy = 0;
  readonly #slots: number;
  readonly #waiting = new Set<() => void>();
  readonly #whenIdle: (() => void)[] = [];
  /** Number of slots of aborted calls, which become free soon. */
  #leaving = 0;

  constructor(slots: number) {
    this.#slots = slots;
  }

  /**
   * Takes a slot, without a promise if one is free. Waits only for slots of aborted calls, so no longer than the child
   * may take to end one before it counts as hung. Rejects with EngineError `overloaded` when running calls have all
   * slots, and with `aborted`.
   */
  take(signal: AbortFlag): HeldSlot | Promise<HeldSlot> {
    if (this.busy >= this.#slots) return this.#next(signal);
    this.busy += 1;
    return this.#hold();
  }

  /** Calls back once, when no slot is taken. */
  whenIdle(callback: () => void): void {
    if (this.busy === 0) callback();
    else this.#whenIdle.push(callback);
  }

  #hold(): HeldSlot {
    let isLeaving = false;
    return {
      expectRelease: () => {
        if (!isLeaving) this.#leaving += 1;
        isLeaving = true;
      },
      release: () => {
        if (isLeaving) this.#leaving -= 1;
        this.#free();
      },
    };
  }

  #next(signal: AbortFlag): Promise<HeldSlot> {
    if (this.#waiting.size >= this.#leaving) {
      return Promise.reject(new EngineError("overloaded", "all slots are busy", { retryable: true }));
    }
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(grant);
        reject(abortedError(signal));
      };
      const grant = (): void => {
        signal.removeEventListener("abort", onAbort);
        resolve(this.#hold());
      };
      signal.addEventListener("abort", onAbort);
      this.#waiting.add(grant);
    });
  }

  /** Passes the slot on to the call that has waited longest, if any. */
  #free(): void {
    const [grant] = this.#waiting;
    if (grant !== undefined) {
      this.#waiting.delete(grant);
      grant();
      return;
    }
    this.busy -= 1;
    if (this.busy > 0) return;
    for (const callback of this.#whenIdle.splice(0)) callback();
  }
}
