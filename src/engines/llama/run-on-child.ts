import type { EngineError, GenEvent } from "../../domain/inference/engine.js";
import type { Clock } from "../../domain/ports.js";
import type { StopSignal } from "../../lib/lazy-abort.js";
import { abortedError, reportedError, restartedError } from "./call-errors.js";
import type { CallProgress } from "./call-progress.js";
import type { CallEnd, ChildRequest, ChildSession } from "./child-session.js";
import type { Supervisor } from "./supervisor.js";

export interface ChildCall {
  readonly request: ChildRequest;
  /** How long the caller has waited already. */
  readonly queueMs: number;
  readonly progress: CallProgress;
  /** Told all of the call's events, in order. */
  onEvent(event: GenEvent): void;
  /** Called once, when no child has the call any more: before its end, or after that of a call that was aborted. */
  onLeft(): void;
}

export interface CallDeps {
  readonly clock: Clock;
  readonly supervisor: Supervisor;
  /** How long a caller may wait, all in all, for its slot and for a child that is silent or being restarted. */
  readonly patienceMs: number;
}

export type CallAnswer = Exclude<CallEnd, { type: "lost" | "failed" }>;

type RunEnd = CallEnd | { readonly type: "unanswered" };

/** How long the child may take to say what an aborted call had produced. */
const abortAnswerMs = 1_000;

/**
 * Runs one call on the model's child. A call that loses its child before it had any output is run once more, on the next
 * child, if its patience lasts. So `patienceMs` after a loss the call is over or runs on a healthy child: it has waited
 * that long at most for its slot, for the silent child and for the next one. A second loss ends it, which a silent child
 * can put off by another stall limit, but no further. Rejects with EngineError: with the child's own, with
 * `engine_restarted`, `aborted`, and with what the supervisor says when there is no child.
 */
export async function runOnChild(deps: CallDeps, call: ChildCall, signal: StopSignal): Promise<CallAnswer> {
  let isLeft = true;
  try {
    const end = await runUntilEnd(deps, call, signal);
    isLeft = end.type !== "unanswered";
    switch (end.type) {
      case "lost":
        throw lostError(call, signal);
      case "unanswered":
        throw abortedError(signal, call.progress.produced);
      case "failed":
        throw failedError(call, end);
      default:
        return end;
    }
  } finally {
    if (isLeft) call.onLeft();
  }
}

/** The end of the first try, or of the second where the first lost its child. */
async function runUntilEnd(deps: CallDeps, call: ChildCall, signal: StopSignal): Promise<RunEnd> {
  let patienceMs = Math.max(0, deps.patienceMs - call.queueMs);
  for (let isSecond = false; ; isSecond = true) {
    const sinceMs = deps.clock.monotonic();
    const session = await deps.supervisor.session(signal, patienceMs);
    if (signal.aborted) throw abortedError(signal, call.progress.produced);
    patienceMs -= deps.clock.monotonic() - sinceMs;
    const end = await runOnce(deps.clock, session, call, signal);
    if (end.type !== "lost") return end;
    patienceMs -= end.silentMs;
    if (isSecond || signal.aborted || !mayRunAgain(deps, call, patienceMs)) return end;
  }
}

function mayRunAgain({ supervisor }: CallDeps, { progress }: ChildCall, patienceMs: number): boolean {
  return !progress.hasOutput && !supervisor.isStopped && patienceMs > 0;
}

/** A call with output cannot be repeated by anybody: the caller has seen its beginning. */
function lostError({ progress }: ChildCall, signal: StopSignal): EngineError {
  if (signal.aborted) return abortedError(signal, progress.produced);
  return restartedError(progress.produced, !progress.hasOutput);
}

function failedError({ progress }: ChildCall, { error }: Extract<CallEnd, { type: "failed" }>): EngineError {
  if (error.usage !== null) progress.correct(error.usage);
  return reportedError(error, progress.produced);
}

/**
 * One try. After an abort the child has a second to say what was produced; when it takes longer, the caller is not kept
 * waiting, but the call is with the child until it has ended.
 */
function runOnce(clock: Clock, session: ChildSession, call: ChildCall, signal: StopSignal): Promise<RunEnd> {
  return new Promise((resolve) => {
    let cancelTimer = (): void => {};
    let isOver = false;
    const finish = (end: RunEnd): void => {
      isOver = true;
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
      resolve(end);
    };
    const onAbort = (): void => {
      cancelTimer = clock.after(abortAnswerMs, () => finish({ type: "unanswered" }));
      session.abort(number);
    };
    const number = session.begin(call.request, {
      onEvent(event) {
        if (!isOver) call.onEvent(event);
      },
      onEnd(end) {
        if (isOver) call.onLeft();
        else finish(end);
      },
    });
    signal.addEventListener("abort", onAbort);
  });
}
