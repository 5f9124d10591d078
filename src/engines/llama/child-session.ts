import type { Clock } from "../../domain/call/ports.js";
import type { GenEvent } from "../../domain/engine/engine.js";
import type { ChildProcess, StartChild } from "./child-process.js";
import type { ChildModel, FromChild, LoadedFacts, ToChild } from "./protocol/protocol.js";

/** A call to the child, without its call number. */
export type ChildRequest = WithoutCall<Extract<ToChild, { type: "generate" | "embed" | "count" }>>;
type WithoutCall<M> = M extends unknown ? Omit<M, "call"> : never;

/** The end of a call: the child's answer, or the loss of the child. */
export type CallEnd =
  | Extract<FromChild, { type: "done" | "embedded" | "counted" | "failed" }>
  | { readonly type: "lost" };

export interface CallListener {
  onEvent(event: GenEvent): void;
  /** Called once, after all events of the call. */
  onEnd(end: CallEnd): void;
}

/** Why a session ended. `failed_load`: the child reported that it cannot load the model. */
export interface SessionEnd {
  readonly why: "failed_load" | "died" | "hung" | "closed";
  /** Description for the log. */
  readonly detail: string;
  /** Time since which callers wait for an answer, on the monotonic clock: usually the child's last message. */
  readonly sinceMs: number;
  readonly lastLines: readonly string[];
}

export interface SessionListener {
  onProgress(share: number): void;
  /** Called at most once, when the model is loaded and calls may begin. */
  onLoaded(facts: LoadedFacts): void;
  /** Called once, just before the session's calls end. */
  onEnded(end: SessionEnd): void;
}

export interface SessionDeps {
  readonly clock: Clock;
  readonly startChild: StartChild;
  readonly stallMs: number;
}

/** Time allowed for the start of the process even if the stall limit is shorter: on a busy machine it takes seconds. */
const startMaxMs = 15_000;
/** Maximum time to load a model, long enough for a slow disk. It also ends a load that still reports progress. */
const loadMaxMs = 600_000;
/** Time for the child to exit by itself. */
const closeMaxMs = 2_000;

/**
 * Tokens are sampled in the child's thread pool, one job per call, and the jobs must not run in parallel: llama.cpp
 * sorts the results of a batch on first use without a lock, so that answers would lose or double words. The contexts of
 * an encoder share nothing and run in parallel.
 */
function poolThreadsOf({ kind, slots, threads }: ChildModel): number {
  return kind === "chat" ? 1 : Math.max(1, Math.min(slots, threads));
}

interface OpenCall {
  readonly listener: CallListener;
  cancelAbortTimer: (() => void) | null;
}

/**
 * One child process from start to exit: it loads one model and then runs calls concurrently. A child that is silent for
 * `stallMs`, or does not end an aborted call within it, is killed; its calls end immediately, before the process exits.
 */
export class ChildSession {
  /** Resident memory of the process, at its last heartbeat. */
  memoryBytes = 0;
  readonly #deps: SessionDeps;
  readonly #model: ChildModel;
  readonly #listener: SessionListener;
  readonly #process: ChildProcess;
  readonly #calls = new Map<number, OpenCall>();
  readonly #exited: Promise<void>;
  #noteExit: () => void = () => {};
  #heartbeat: Heartbeat | null = null;
  #cancelTimer: () => void;
  #lastMessageAtMs: number;
  #callsBegun = 0;
  #isOver = false;

  constructor(deps: SessionDeps, model: ChildModel, listener: SessionListener) {
    this.#deps = deps;
    this.#model = model;
    this.#listener = listener;
    this.#lastMessageAtMs = deps.clock.monotonic();
    this.#exited = new Promise((resolve) => {
      this.#noteExit = resolve;
    });
    this.#process = deps.startChild(
      {
        onMessage: (message) => this.#onMessage(message),
        onExit: (detail, lastLines) => {
          this.#noteExit();
          this.#end({ why: "died", detail, lastLines });
        },
      },
      poolThreadsOf(model),
    );
    const startMs = Math.max(deps.stallMs, startMaxMs);
    this.#cancelTimer = deps.clock.after(startMs, () => this.#giveUp(`did not start within ${startMs} ms`));
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Sends a call to the child and returns its number. Only after `onLoaded`. A call after the session's end is lost. */
  begin(request: ChildRequest, listener: CallListener): number {
    const call = ++this.#callsBegun;
    if (this.#isOver) {
      queueMicrotask(() => listener.onEnd({ type: "lost" }));
      return call;
    }
    this.#calls.set(call, { listener, cancelAbortTimer: null });
    this.#process.send({ ...request, call });
    return call;
  }

  /** Sends an abort; the end of the call follows as usual. */
  abort(call: number): void {
    const open = this.#calls.get(call);
    if (open === undefined) return;
    this.#process.send({ type: "abort", call });
    const { clock, stallMs } = this.#deps;
    open.cancelAbortTimer ??= clock.after(stallMs, () =>
      this.#giveUp(`did not end an aborted call within ${stallMs} ms`, clock.monotonic() - stallMs),
    );
  }

  /** Ends the child and its calls. Resolves when the process has exited; it is killed after two seconds. */
  async close(): Promise<void> {
    this.#end({ why: "closed", detail: "closed" });
    this.#process.disconnect();
    const cancel = this.#deps.clock.after(closeMaxMs, () => this.#process.kill());
    await this.#exited;
    cancel();
  }

  #onMessage(message: FromChild): void {
    if (this.#isOver) return;
    this.#lastMessageAtMs = this.#deps.clock.monotonic();
    this.#heartbeat?.answered();
    switch (message.type) {
      case "up":
        this.#load();
        return;
      case "loading":
        this.#listener.onProgress(message.share);
        return;
      case "loaded":
        this.#cancelTimer();
        this.#listener.onLoaded(message.facts);
        return;
      case "load_failed":
        this.#end({ why: "failed_load", detail: message.error.message });
        this.#process.kill();
        return;
      case "events":
        for (const [call, event] of message.events) this.#calls.get(call)?.listener.onEvent(event);
        return;
      case "pong":
        this.memoryBytes = message.memoryBytes;
        return;
      default:
        this.#endCall(message);
    }
  }

  #load(): void {
    const { clock, stallMs } = this.#deps;
    this.#cancelTimer();
    this.#cancelTimer = clock.after(loadMaxMs, () => this.#giveUp(`did not load within ${loadMaxMs} ms`));
    const ping = (count: number): void => this.#process.send({ type: "ping", ping: count });
    const onStall = (): void => this.#giveUp(`did not respond for ${stallMs} ms`);
    this.#heartbeat = startHeartbeat(clock, { stallMs, ping, onStall });
    this.#process.send({ type: "load", model: this.#model });
  }

  #endCall(end: Exclude<CallEnd, { type: "lost" }>): void {
    const open = this.#calls.get(end.call);
    if (open === undefined) return;
    this.#calls.delete(end.call);
    open.cancelAbortTimer?.();
    open.listener.onEnd(end);
  }

  /** SIGKILL is the only signal that ends a stopped or spinning process. */
  #giveUp(detail: string, sinceMs = this.#lastMessageAtMs): void {
    this.#end({ why: "hung", detail, sinceMs });
    this.#process.kill();
  }

  #end(end: Pick<SessionEnd, "why" | "detail"> & Partial<SessionEnd>): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelTimer();
    this.#heartbeat?.stop();
    this.#listener.onEnded({ sinceMs: this.#lastMessageAtMs, lastLines: [], ...end });
    for (const { listener, cancelAbortTimer } of this.#calls.values()) {
      cancelAbortTimer?.();
      listener.onEnd({ type: "lost" });
    }
    this.#calls.clear();
  }
}

const beatMs = 1_000;
const beatsPerStallMin = 5;

interface Heartbeat {
  /** Must be called for each message of the other process. */
  answered(): void;
  stop(): void;
}

/**
 * Detects that the other process hangs although it has not exited: calls `onStall` once, at most `stallMs` after its last
 * message. Counts unanswered pings instead of time: if this process itself was stopped for a minute, the answers are
 * queued behind the timer.
 */
export function startHeartbeat(
  clock: Clock,
  { stallMs, ping, onStall }: { readonly stallMs: number; ping(count: number): void; onStall(): void },
): Heartbeat {
  const everyMs = Math.min(beatMs, stallMs / beatsPerStallMin);
  let pings = 0;
  let unanswered = 0;
  let cancelTimer = (): void => {};
  const beat = (): void => {
    ping(++pings);
    unanswered += 1;
    cancelTimer = clock.after(everyMs, () => {
      // One interval less: the last answer may have come a whole interval before the first unanswered ping.
      if (unanswered * everyMs < stallMs - everyMs) beat();
      else onStall();
    });
  };
  beat();
  return {
    answered() {
      unanswered = 0;
    },
    stop: () => cancelTimer(),
  };
}
