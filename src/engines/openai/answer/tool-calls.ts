import type { GenEvent } from "../../../domain/engine/engine.js";
import { isObject } from "../../../lib/json-string.js";
import { InvalidResponse } from "../protocol/upstream-failure.js";

type ToolEvent = Extract<GenEvent, { type: "tool" }>;

interface OpenCall {
  /** Index among the calls that the client receives. */
  readonly index: number;
  readonly upstreamId: string | null;
  /** False until the name has come, which the first event of a call must contain. */
  isBegun: boolean;
  /** Arguments that came before the name. */
  heldArgs: string;
}

/** An id that is kept: long enough to be unique in a conversation, in contrast to `0` or `call_0`. */
const usableId = /^[\x21-\x7e]{9,256}$/;
const callsMax = 1_024;

/**
 * Assembles the tool calls of one choice from deltas. Servers leave out the index, the id or the type, repeat the name, send
 * arguments as an object, or give all calls the same index. Calls are numbered in order of arrival; a new call ends the last.
 */
export class ToolCalls {
  readonly #choice: number;
  readonly #parallel: boolean;
  readonly #newId: () => string;
  readonly #calls: OpenCall[] = [];
  readonly #byIndex = new Map<number, OpenCall>();
  readonly #ids = new Set<string>();

  /** `parallel` false: calls after the first are dropped. */
  constructor(choice: number, parallel: boolean, newId: () => string) {
    this.#choice = choice;
    this.#parallel = parallel;
    this.#newId = newId;
  }

  get isEmpty(): boolean {
    return this.#calls.length === 0;
  }

  /** Emits the events of one delta. Throws InvalidResponse for deltas that belong to no call or to one that has ended. */
  take(delta: unknown, outTokens: number, emit: (event: ToolEvent) => void): void {
    if (!isObject(delta)) return;
    const called = isObject(delta["function"]) ? delta["function"] : {};
    const name = nonEmpty(called["name"]);
    const args = argumentsOf(called["arguments"]);
    const call = this.#callOf(delta, name);
    if (!this.#parallel && call.index > 0) return;
    if (call !== this.#calls.at(-1)) {
      if (args !== "") throw new InvalidResponse("the upstream mixes the deltas of several tool calls");
      return;
    }
    const event = { type: "tool", choice: this.#choice, index: call.index, outTokens } as const;
    if (call.isBegun) {
      if (args !== "") emit({ ...event, argsDelta: args });
      return;
    }
    call.heldArgs += args;
    if (name === null) return;
    call.isBegun = true;
    const id = this.#uniqueId(call.upstreamId);
    emit({ ...event, id, name, ...(call.heldArgs === "" ? {} : { argsDelta: call.heldArgs }) });
  }

  /** Throws InvalidResponse when a call never got its name. */
  end(): void {
    if (this.#calls.some(({ isBegun, index }) => !isBegun && (this.#parallel || index === 0))) {
      throw new InvalidResponse("the upstream sent a tool call without a name");
    }
  }

  #callOf(delta: Readonly<Record<string, unknown>>, name: string | null): OpenCall {
    const index = Number.isInteger(delta["index"]) ? Number(delta["index"]) : null;
    const id = nonEmpty(delta["id"]);
    const last = this.#calls.at(-1);
    if (index === null) {
      const sameId = id === null ? undefined : this.#calls.find((call) => call.upstreamId === id);
      if (sameId !== undefined) return sameId;
      const continues = last !== undefined && id === null && (name === null || !last.isBegun);
      return continues ? last : this.#begin(id);
    }
    const known = this.#byIndex.get(index);
    // Some servers send whole calls that all have index 0: a delta with a name and another id begins a new call.
    const isOther = known?.isBegun === true && name !== null && id !== null && (known.upstreamId ?? id) !== id;
    if (known !== undefined && !isOther) return known;
    const call = this.#begin(id);
    this.#byIndex.set(index, call);
    return call;
  }

  #begin(upstreamId: string | null): OpenCall {
    if (this.#calls.length >= callsMax) throw new InvalidResponse(`the upstream sent more than ${callsMax} tool calls`);
    const call: OpenCall = { index: this.#calls.length, upstreamId, isBegun: false, heldArgs: "" };
    this.#calls.push(call);
    return call;
  }

  #uniqueId(upstreamId: string | null): string {
    const isUsable = upstreamId !== null && usableId.test(upstreamId) && !this.#ids.has(upstreamId);
    const id = isUsable ? upstreamId : this.#newId();
    this.#ids.add(id);
    return id;
  }
}

function nonEmpty(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/** The arguments as JSON text; some servers send an object. */
function argumentsOf(value: unknown): string {
  if (typeof value === "string") return value;
  return value === null || value === undefined ? "" : JSON.stringify(value);
}
