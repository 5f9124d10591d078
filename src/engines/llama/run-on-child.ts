import type { Clock } from "../../domain/call/ports.js";
import type { EngineError, GenEvent } from "../../domain/engine/engine.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import type { HeldSlot } from "./call-slots.js";
import type { CallEnd, ChildRequest, ChildSession } from "./child-session.js";
import { abortedError, reportedError, restartedError } from "./protocol/call-errors.js";
import type { ProducedTokens } from "./protocol/protocol.js";
import type { Supervisor } from "./supervisor.js";

export interface ChildCall {
  readonly request: ChildRequest;
  /** How long the caller has waited already. */
  readonly queueMs: number;
  readonly progress: CallProgress;
  /** Told all of the call's events, in order. */
  onEvent(event: GenEvent): void;
  /** Given back before the call's end, or after that of a call that was ended early. */
  readonly slot: HeldSlot;
}

export interface CallDeps {
  readonly clock: Clock;
  readonly supervisor: Supervisor;
  /** How long after the loss of a child, its silence included, a caller may wait for the next one's first output. */
  readonly patienceMs: number;
}

export type CallAnswer = Exclude<CallEnd, { type: "lost" | "failed" }>;

type RunEnd = CallEnd | { readonly type: "unanswered" | "late" };

/** How long the child may take to say what an aborted call had produced. */
const abortAnswerMs = 1_000;

/**
 * Runs one call on the model's child. A call that loses its child before it had any output is run once more, on the next
 * child, and a call that comes while there is none waits for the next. Either must have its first output `patienceMs`
 * after the loss or after its own beginning, whichever was later; so must a call without events have its end. A second
 * loss ends it. Rejects with EngineError: with the child's own, with `engine_restarted`, `aborted`, and with what the
 * supervisor says when there is no child.
 */
export async function runOnChild(deps: CallDeps, call: ChildCall, signal: AbortFlag): Promise<CallAnswer> {
  let isLeft = true;
  try {
    const end = await runUntilEnd(deps, call, signal);
    isLeft = end.type !== "unanswered" && end.type !== "late";
    switch (end.type) {
      case "lost":
      case "late":
        throw lostError(call, signal);
      case "unanswered":
        throw abortedError(signal, call.progress.produced);
      case "failed":
        throw failedError(call, end);
      default:
        return end;
    }
  } finally {
    if (isLeft) call.slot.giveBack();
  }
}

/** The end of the first try, or of the second where the first lost its child. */
async function runUntilEnd(deps: CallDeps, call: ChildCall, signal: AbortFlag): Promise<RunEnd> {
  const { clock, supervisor, patienceMs } = deps;
  const beganAtMs = clock.monotonic() - call.queueMs;
  const leftMs = (): number => Math.max(beganAtMs, supervisor.lostAtMs) + patienceMs - clock.monotonic();
  for (let isSecond = false; ; isSecond = true) {
    const mustHurry = isSecond || !supervisor.isReady;
    const session = await supervisor.session(signal, leftMs());
    if (signal.aborted) throw abortedError(signal, call.progress.produced);
    const end = await runOnce(clock, session, call, { signal, outputWithinMs: mustHurry ? leftMs() : null });
    if (end.type !== "lost" || isSecond || signal.aborted || !mayRunAgain(deps, call, leftMs())) return end;
  }
}

function mayRunAgain({ supervisor }: CallDeps, { progress }: ChildCall, patienceMs: number): boolean {
  return !progress.hasOutput && !supervisor.isStopped && patienceMs > 0;
}

/** A call with output cannot be repeated by anybody: the caller has seen its beginning. */
function lostError({ progress }: ChildCall, signal: AbortFlag): EngineError {
  if (signal.aborted) return abortedError(signal, progress.produced);
  return restartedError(progress.produced, !progress.hasOutput);
}

function failedError({ progress }: ChildCall, { error }: Extract<CallEnd, { type: "failed" }>): EngineError {
  if (error.usage !== null) progress.correct(error.usage);
  return reportedError(error, progress.produced);
}

interface TryOptions {
  readonly signal: AbortFlag;
  /** Null: however long it takes. */
  readonly outputWithinMs: number | null;
}

/**
 * One try. After an abort the child has a second to say what was produced; when it takes longer, or has no output in
 * time, the caller is not kept waiting, but the call is with the child until it has ended.
 */
function runOnce(
  clock: Clock,
  session: ChildSession,
  call: ChildCall,
  { signal, outputWithinMs }: TryOptions,
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
      call.slot.leave();
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
        if (isOver) call.slot.giveBack();
        else finish(end);
      },
    });
    signal.addEventListener("abort", onAbort);
    if (outputWithinMs !== null) cancelOutputTimer = clock.after(Math.max(0, outputWithinMs), onLate);
  });
}

/** What a call is known to have consumed and produced so far. */
export class CallProgress {
  #promptTokens = 0;
  #cachedTokens = 0;
  #outTokens = 0;
  #isAccepted = false;
  #hasOutput = false;

  get isAccepted(): boolean {
    return this.#isAccepted;
  }

  /** Whether the caller may have seen a part of the answer. */
  get hasOutput(): boolean {
    return this.#hasOutput;
  }

  get produced(): ProducedTokens {
    return { promptTokens: this.#promptTokens, outTokens: this.#outTokens, cachedTokens: this.#cachedTokens };
  }

  note(event: GenEvent): void {
    if (event.type === "accepted") {
      this.#isAccepted = true;
      this.#promptTokens = event.promptTokens ?? 0;
      this.#cachedTokens = event.cachedTokens;
      return;
    }
    this.#hasOutput = true;
    this.#outTokens = event.outTokens;
  }

  /** Takes over what the child said at the end. */
  correct(produced: ProducedTokens): void {
    this.#promptTokens = produced.promptTokens;
    this.#cachedTokens = produced.cachedTokens;
    this.#outTokens = produced.outTokens;
  }
}
