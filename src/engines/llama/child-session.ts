import type { Clock } from "../../domain/call/ports.js";
import type { GenEvent } from "../../domain/engine/engine.js";
import type { ChildExit, ChildProcess, StartChild } from "./child-process.js";
import type { ChildModel, FromChild, LoadedFacts, ToChild } from "./protocol/protocol.js";

/** A call as it goes to the child, before it has a number. */
export type ChildRequest = WithoutCall<Extract<ToChild, { type: "generate" | "embed" | "count" }>>;
type WithoutCall<M> = M extends unknown ? Omit<M, "call"> : never;

/** How a call ended: as the child said, or with the child. */
export type CallEnd =
  | Extract<FromChild, { type: "done" | "embedded" | "counted" | "failed" }>
  | { readonly type: "lost" };

export interface CallListener {
  onEvent(event: GenEvent): void;
  /** Called once; nothing follows. */
  onEnd(end: CallEnd): void;
}

/** Why a child's life ended. `failed_load`: it said itself that it cannot load the model. */
export interface SessionEnd {
  readonly why: "failed_load" | "died" | "hung" | "closed";
  /** For the log. */
  readonly detail: string;
  /** Since when its callers have waited in vain, on the monotonic clock: since its last sign of life, as a rule. */
  readonly sinceMs: number;
  readonly lastLines: readonly string[];
}

export interface SessionListener {
  onProgress(share: number): void;
  /** Called at most once: calls may begin. */
  onLoaded(facts: LoadedFacts): void;
  /** Called once. The session's calls are told right after it. */
  onEnded(end: SessionEnd): void;
}

export interface SessionDeps {
  readonly clock: Clock;
  readonly startChild: StartChild;
  readonly stallMs: number;
}

/** A process that starts on a busy machine takes seconds before it can answer; no shorter stall limit holds for it. */
const startMaxMs = 15_000;
/** For the slowest disk. Progress is no excuse: a load that takes longer never ends. */
const loadMaxMs = 600_000;
/** How long a child may take to end by itself. */
const closeMaxMs = 2_000;

/**
 * Tokens are sampled in the child's thread pool, one job per call, and must not be sampled at the same time: llama.cpp
 * sorts the results of a batch on first use without a lock, so that answers would lose or double words. The contexts of
 * an encoder share nothing and run side by side.
 */
function poolThreadsOf({ kind, slots, threads }: ChildModel): number {
  return kind === "chat" ? 1 : Math.max(1, Math.min(slots, threads));
}

interface OpenCall {
  readonly listener: CallListener;
  cancelAbortTimer: (() => void) | null;
}

/**
 * One life of a child process, from its start to its end: it loads one model and then runs calls side by side. A child
 * that gives no sign of life for `stallMs`, or does not end a call that it was told to abort that long ago, is killed;
 * its calls are told at once, whatever becomes of the process.
 */
export class ChildSession {
  readonly #deps: SessionDeps;
  readonly #model: ChildModel;
  readonly #listener: SessionListener;
  readonly #process: ChildProcess;
  readonly #calls = new Map<number, OpenCall>();
  readonly #exited: Promise<void>;
  #noteExit: () => void = () => {};
  #heartbeat: Heartbeat | null = null;
  #cancelTimer: () => void;
  #heardAtMs: number;
  #callsBegun = 0;
  #isOver = false;

  constructor(deps: SessionDeps, model: ChildModel, listener: SessionListener) {
    this.#deps = deps;
    this.#model = model;
    this.#listener = listener;
    this.#heardAtMs = deps.clock.monotonic();
    this.#exited = new Promise((resolve) => {
      this.#noteExit = resolve;
    });
    this.#process = deps.startChild(
      {
        onMessage: (message) => this.#onMessage(message),
        onExit: (exit) => this.#onExit(exit),
      },
      poolThreadsOf(model),
    );
    const startMs = Math.max(deps.stallMs, startMaxMs);
    this.#cancelTimer = deps.clock.after(startMs, () => this.#giveUp(`did not start within ${startMs} ms`));
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Sends a call to the child, after `onLoaded`; to one that has ended just now, it is lost at once. */
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

  /** Asks the child to end a call early; its end comes like any other. */
  abort(call: number): void {
    const open = this.#calls.get(call);
    if (open === undefined) return;
    this.#process.send({ type: "abort", call });
    const { stallMs } = this.#deps;
    open.cancelAbortTimer ??= this.#deps.clock.after(stallMs, () =>
      this.#giveUp(`did not end an aborted call within ${stallMs} ms`, this.#deps.clock.monotonic() - stallMs),
    );
  }

  /** Ends the child and what runs on it. Resolves when the process is gone; it is killed after two seconds. */
  async close(): Promise<void> {
    this.#end({ why: "closed", detail: "closed", lastLines: [] });
    this.#process.disconnect();
    const cancel = this.#deps.clock.after(closeMaxMs, () => this.#process.kill());
    await this.#exited;
    cancel();
  }

  #onMessage(message: FromChild): void {
    if (this.#isOver) return;
    this.#heardAtMs = this.#deps.clock.monotonic();
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
        this.#end({ why: "failed_load", detail: message.error.message, lastLines: [] });
        this.#process.kill();
        return;
      case "events":
        for (const [call, event] of message.events) this.#calls.get(call)?.listener.onEvent(event);
        return;
      case "pong":
        return;
      default:
        this.#endCall(message);
    }
  }

  #load(): void {
    const { clock, stallMs } = this.#deps;
    this.#cancelTimer();
    this.#cancelTimer = clock.after(loadMaxMs, () => this.#giveUp(`did not load within ${loadMaxMs} ms`));
    this.#heartbeat = new Heartbeat(clock, {
      stallMs,
      ask: (ping) => this.#process.send({ type: "ping", ping }),
      onStall: () => this.#giveUp(`gave no sign of life for ${stallMs} ms`),
    });
    this.#process.send({ type: "load", model: this.#model });
  }

  #endCall(end: Exclude<CallEnd, { type: "lost" }>): void {
    const open = this.#calls.get(end.call);
    if (open === undefined) return;
    this.#calls.delete(end.call);
    open.cancelAbortTimer?.();
    open.listener.onEnd(end);
  }

  #onExit({ how, lastLines }: ChildExit): void {
    this.#noteExit();
    this.#end({ why: "died", detail: how, lastLines });
  }

  /** A stopped or spinning process hears no signal but this one. */
  #giveUp(detail: string, sinceMs = this.#heardAtMs): void {
    this.#end({ why: "hung", detail, lastLines: [], sinceMs });
    this.#process.kill();
  }

  #end(end: Omit<SessionEnd, "sinceMs"> & { readonly sinceMs?: number }): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelTimer();
    this.#heartbeat?.stop();
    this.#listener.onEnded({ sinceMs: this.#heardAtMs, ...end });
    for (const { listener, cancelAbortTimer } of this.#calls.values()) {
      cancelAbortTimer?.();
      listener.onEnd({ type: "lost" });
    }
    this.#calls.clear();
  }
}

const beatMs = 1_000;
const beatsPerStallMin = 5;

export interface HeartbeatOptions {
  /** Silence after which the other side counts as hung. */
  readonly stallMs: number;
  /** Asks the other side for a sign of life. */
  ask(count: number): void;
  /** Called once, at most `stallMs` after the last sign of life. The heartbeat has stopped then. */
  onStall(): void;
}

/**
 * Finds out that the other side hangs, though its process lives. Silence is counted in questions that went unanswered,
 * not in time: when this process itself was stopped for a minute, the answers wait behind the timer.
 */
export class Heartbeat {
  readonly #clock: Clock;
  readonly #options: HeartbeatOptions;
  readonly #everyMs: number;
  #asked = 0;
  #unanswered = 0;
  #cancelTimer: (() => void) | null = null;

  constructor(clock: Clock, options: HeartbeatOptions) {
    this.#clock = clock;
    this.#options = options;
    this.#everyMs = Math.min(beatMs, options.stallMs / beatsPerStallMin);
    this.#ask();
  }

  /** The other side said something. */
  answered(): void {
    this.#unanswered = 0;
  }

  stop(): void {
    this.#cancelTimer?.();
  }

  #ask(): void {
    this.#options.ask(++this.#asked);
    this.#unanswered += 1;
    this.#cancelTimer = this.#clock.after(this.#everyMs, () => {
      // One beat less: the last answer may have come a whole beat before the first question that got none.
      if (this.#unanswered * this.#everyMs < this.#options.stallMs - this.#everyMs) this.#ask();
      else this.#options.onStall();
    });
  }
}
