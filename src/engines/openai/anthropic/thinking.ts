import { Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { GenerateInput, GenerateRequest } from "../../../domain/engine/engine.js";
import type { MessagesFacts } from "../../../domain/engine/upstream.js";

/** The limit of output tokens, which the API requires, if neither the request nor the model's facts state one. */
const maxTokensDefault = 8_192;

/** The smallest budget that the API accepts, and the minimum of tokens that is left for the answer after the thinking. */
const budgetMin = 1_024;
const answerTokensMin = 1_024;

/** Tokens of thinking by the reasoning effort of the request. */
const budgets: Readonly<Record<string, number>> = {
  minimal: 1_024,
  low: 2_048,
  medium: 8_192,
  high: 16_384,
  xhigh: 32_768,
  max: 65_536,
};

/** Levels of effort from the lowest to the highest, as the API names them. */
const effortNames = ["low", "medium", "high", "xhigh", "max"];

export interface Thinking {
  readonly maxTokens: number;
  /** The field `thinking` as JSON; null: the server's own default applies. */
  readonly json: string | null;
  /** `output_config.effort`; null: the server's own default applies. */
  readonly effort: string | null;
  /** Whether thinking is turned on; the API then rejects some sampling options. */
  readonly isOn: boolean;
}

/**
 * How much a model thinks, by the request's `reasoning_effort`: some models take a budget of tokens, others an effort. A
 * budget is left out where the API rejects it: with a forced call, if `max_tokens` is too small for it, and after results of
 * tools, because the request would have to contain the thinking before the call with its signature.
 */
export function thinkingOf(
  { maxTokens: requested, reasoningEffort }: Pick<GenerateRequest, "maxTokens" | "reasoningEffort">,
  input: Extract<GenerateInput, { messages: unknown }>,
  facts: MessagesFacts | null,
): Thinking {
  const largest = facts?.maxOutput ?? maxTokensDefault;
  const without = { maxTokens: Math.max(1, requested ?? largest), json: null, effort: null, isOn: false };
  if (reasoningEffort === undefined || facts?.thinking === "none") return without;
  const isEffort = facts?.thinking === "effort";
  if (reasoningEffort === "none") return isEffort ? { ...without, json: '{"type":"disabled"}' } : without;
  if (input.toolChoice.mode === "required" || input.toolChoice.mode === "named") return without;
  if (isEffort) {
    const effort = effortOf(reasoningEffort, facts.efforts);
    return { ...without, json: '{"type":"adaptive","display":"summarized"}', effort, isOn: true };
  }
  const last = input.messages.findLast(({ role }) => role !== Role.SYSTEM && role !== Role.DEVELOPER);
  if (last?.role === Role.TOOL) return without;
  const wanted = budgets[reasoningEffort] ?? budgetMin;
  // If nothing limits the answer, the budget is added to the default limit.
  const isOpen = requested === null && (facts?.maxOutput ?? null) === null;
  const maxTokens = isOpen ? maxTokensDefault + wanted : without.maxTokens;
  const budget = Math.min(wanted, maxTokens - answerTokensMin);
  if (budget < budgetMin) return without;
  return { maxTokens, json: `{"type":"enabled","budget_tokens":${budget}}`, effort: null, isOn: true };
}

/** The highest level of the model that is not above the requested one, else its lowest; null: it has none. */
function effortOf(requested: string, levels: readonly string[]): string | null {
  const upTo = effortNames.indexOf(requested === "minimal" ? "low" : requested);
  const known = effortNames.filter((name) => levels.includes(name));
  return known.findLast((name) => effortNames.indexOf(name) <= upTo) ?? known[0] ?? null;
}
