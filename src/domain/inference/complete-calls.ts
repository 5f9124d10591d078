import type { GenEvent } from "../engine/engine.js";

type ToolEvent = Extract<GenEvent, { type: "tool" }>;

/**
 * Completes tool calls without arguments with `{}` (TOOL-11, STRM-9), because engines differ in sending it. A cut call
 * stays as it is. Calls of a choice come one after the other, so one per choice is tracked.
 */
export class CompleteCalls {
  /** The open call of each choice while it has no arguments; null until the first call. */
  #bare: Map<number, ToolEvent> | null = null;

  /** The event to insert before this one, or null. */
  before(event: GenEvent): ToolEvent | null {
    if (event.type !== "tool" && event.type !== "finish") return null;
    const bare = this.#bare?.get(event.choice);
    this.#note(event);
    if (bare === undefined || goesOn(bare, event) || isCut(event)) return null;
    const { choice, index, outTokens } = bare;
    return { type: "tool", choice, index, outTokens, argsDelta: "{}" };
  }

  #note(event: ToolEvent | Extract<GenEvent, { type: "finish" }>): void {
    const open = event.type === "tool" ? this.#bare?.get(event.choice) : undefined;
    const isNew = event.type === "tool" && open?.index !== event.index && event.id !== undefined;
    const hasArguments = event.type === "tool" && (event.argsDelta ?? "") !== "";
    if (event.type === "tool" && isNew && !hasArguments) {
      this.#bare ??= new Map();
      this.#bare.set(event.choice, event);
    } else if (event.type === "finish" || isNew || hasArguments) this.#bare?.delete(event.choice);
  }
}

/** Whether the event continues the same call. */
function goesOn(call: ToolEvent, event: GenEvent): boolean {
  return event.type === "tool" && event.index === call.index;
}

function isCut(event: GenEvent): boolean {
  return event.type === "finish" && event.reason === "length";
}
