import { MemberList, type Placed } from "../../lib/collections.js";
import type { EndReason } from "./call-context.js";
import { includesModel, includesModels, type Principal, sessionIdOf } from "./principal.js";

/** Stage of a call: reading its body, waiting for a slot, running in an engine, writing its answer, watching changes. */
export type Stage = "receiving" | "queued" | "running" | "delivering" | "watching";

/** One call between `open` and `close`. */
export interface LiveRequest extends Placed {
  readonly requestId: string;
  readonly principal: Principal;
  /** Wall-clock time of its arrival. */
  readonly receivedAtMs: number;
  readonly stage: Stage;
  /** Id of the requested model; null until the request is validated. */
  readonly model: string | null;
  /** Id of the model that runs instead of the requested one; null: none does. */
  readonly fallbackModel: string | null;
  /** Usage so far; null before admission. */
  readonly usedSoFar: UsageTotal | null;
  /** Ends the call; the first reason counts. */
  abort(why: EndReason): void;
}

/** All open calls of this process, in no order. Used for revocation, drain, lease renewal and `/debug/state`. */
export class LiveRequests {
  readonly #calls = new MemberList<LiveRequest>();
  readonly #emptied: (() => void)[] = [];

  add(call: LiveRequest): void {
    this.#calls.add(call);
  }

  remove(call: LiveRequest): void {
    this.#calls.delete(call);
    if (this.#calls.size > 0) return;
    for (const emptied of this.#emptied.splice(0)) emptied();
  }

  get size(): number {
    return this.#calls.size;
  }

  /** Calls per stage; stages without a call are left out. */
  countByStage(): Partial<Record<Stage, number>> {
    const counts: Partial<Record<Stage, number>> = {};
    for (const call of this.#calls) counts[call.stage] = (counts[call.stage] ?? 0) + 1;
    return counts;
  }

  /** Progress of the admitted calls. */
  progress(): readonly Progress[] {
    const progress: Progress[] = [];
    for (const { requestId, principal, usedSoFar } of this.#calls) {
      if (usedSoFar === null) continue;
      const { promptTokens, completionTokens } = usedSoFar;
      progress.push({ requestId, account: principal.account, promptTokens, completionTokens });
    }
    return progress;
  }

  /** Ids of the keys in use. */
  keyIds(): ReadonlySet<string> {
    return new Set(this.#calls.all().flatMap(({ principal }) => principal.keyId ?? []));
  }

  /** Ids of the sessions in use. */
  sessionIds(): ReadonlySet<string> {
    return new Set(this.#calls.all().flatMap(({ principal }) => sessionIdOf(principal) ?? []));
  }

  /** Ends the calls that their keys, as last read, no longer allow at `nowMs` in store time (KEY-13, E-17). */
  endExcluded(read: ReadonlyMap<string, KeyRights>, nowMs: number): void {
    this.#abortAll("key_revoked", (call) => isExcluded(call, read, nowMs));
  }

  /** Ends every call of these sessions. */
  endSessions(ids: ReadonlySet<string>): void {
    this.#abortAll("key_revoked", ({ principal }) => ids.has(sessionIdOf(principal) ?? ""));
  }

  /** Ends calls that only watch for changes. */
  abortWatches(): void {
    this.#abortAll("shutting_down", ({ stage }) => stage === "watching");
  }

  abortAll(why: EndReason): void {
    this.#abortAll(why, () => true);
  }

  /** Resolves when no call is open. */
  emptied(): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#emptied.push(resolve));
  }

  #abortAll(why: EndReason, matches: (call: LiveRequest) => boolean): void {
    for (const call of this.#calls.all().filter(matches)) call.abort(why);
  }
}

/** Rights of a key, as last read from the store. */
export interface KeyRights {
  /** Null: the key is revoked. */
  readonly key: { readonly models: readonly string[]; readonly expiresAtMs: number | null } | null;
  /** Time of the read. Calls that arrived later were opened with rights that are at least as new. */
  readonly readAtMs: number;
}

/** Whether a call's key no longer allows it. A call whose model is not known yet is checked again later. */
function isExcluded(call: LiveRequest, read: ReadonlyMap<string, KeyRights>, nowMs: number): boolean {
  const { principal, receivedAtMs, model, fallbackModel, stage } = call;
  if (principal.kind !== "api_key") return false;
  const last = read.get(principal.keyId);
  const rights = last !== undefined && receivedAtMs <= last.readAtMs ? last.key : principal;
  if (rights === null) return true;
  const { models, expiresAtMs = null } = rights;
  if (expiresAtMs !== null && expiresAtMs <= nowMs) return true;
  if (rights === principal || models.length === 0) return false;
  if (stage === "watching") return !includesModels(models, principal.models);
  return [model, fallbackModel].some((used) => used !== null && !includesModel(models, used));
}

/** Usage of a running request so far, in case its process dies. */
export interface Progress {
  readonly requestId: string;
  readonly account: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** Tokens of one request. Integers, 0 or more. */
export interface UsageTotal {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly reasoningTokens: number;
}

interface PromptUsage {
  promptTokens: number;
  cachedTokens: number;
  reasoningTokens: number;
}

interface ClosedPrompt {
  readonly base: number;
  readonly choices: number;
  readonly outTokens: number;
}

/**
 * Counts a request's usage from engine events: prompt tokens once per prompt, completion tokens over all choices (CHAT-3,
 * CMPL-13). The engine's final counts replace those during the run.
 */
export class UsageTally {
  // Lists start with one element, which is enough for most requests; an empty array would grow to a capacity of 17.
  /** Indexed by the first choice of each prompt; sparse when prompts have several choices. */
  readonly #prompts: (PromptUsage | undefined)[] = [undefined];
  readonly #completionByChoice: number[] = [0];
  /** Final figures of prompts whose choices the engine counted together. */
  readonly #closedPrompts: (ClosedPrompt | undefined)[] = [undefined];

  /** Records that the prompt whose first choice is `base` was accepted. */
  prompt(base: number, promptTokens: number, cachedTokens: number, reasoningTokens = 0): void {
    this.#prompts[base] = { promptTokens, cachedTokens, reasoningTokens };
  }

  /** Sets the tokens of a choice so far. */
  produced(choice: number, outTokens: number): void {
    this.#completionByChoice[choice] = outTokens;
  }

  /** Sets the engine's final figures for `choices` choices from `base`. */
  close(base: number, choices: number, outTokens: number): void {
    this.#closedPrompts[base] = { base, choices, outTokens };
  }

  /** Forgets the prompt whose first choice is `base`: its run failed, and another one begins. */
  restart(base: number, choices: number): void {
    this.#prompts[base] = undefined;
    this.#closedPrompts[base] = undefined;
    for (let choice = base; choice < base + choices; choice++) this.#completionByChoice[choice] = 0;
  }

  /** Forgets everything: the request starts again on another model. */
  clear(): void {
    this.#prompts.length = 0;
    this.#closedPrompts.length = 0;
    this.#completionByChoice.length = 0;
  }

  total(): UsageTotal {
    let promptTokens = 0;
    let cachedTokens = 0;
    let reasoningTokens = 0;
    for (const prompt of this.#prompts) {
      promptTokens += prompt?.promptTokens ?? 0;
      cachedTokens += prompt?.cachedTokens ?? 0;
      reasoningTokens += prompt?.reasoningTokens ?? 0;
    }
    return { promptTokens, cachedTokens, reasoningTokens, completionTokens: this.#completionTokens() };
  }

  #completionTokens(): number {
    let sum = 0;
    for (const tokens of this.#completionByChoice) sum += tokens ?? 0;
    for (const closed of this.#closedPrompts) {
      if (closed === undefined) continue;
      const { base, choices, outTokens } = closed;
      sum += outTokens;
      for (let choice = base; choice < base + choices; choice++) sum -= this.#completionByChoice[choice] ?? 0;
    }
    return sum;
  }
}
