import { printableLine } from "../../lib/display-text.js";

/** A remark for the operator about an imported configuration. */
export interface Note {
  /** `to do`: the printed configuration needs it; `left out`: it has no effect any more; `changed`: it works differently. */
  readonly sort: "to do" | "left out" | "changed";
  /** Settings of the LiteLLM file, never their values: those may be secrets. */
  readonly what: string;
  readonly why: string;
  /** The part of our configuration that has the comment; null: the whole. */
  readonly of: Subject | null;
}

/** An entry of the configuration: a model by its id, or an upstream by its name. */
export interface Subject {
  readonly list: "models" | "upstreams";
  readonly name: string;
}

/** Text of a note, for a comment or a line of the summary. */
export function noteLine({ sort, what, why }: Pick<Note, "sort" | "what" | "why">): string {
  return printableLine(`${sort}: ${what}: ${why}`);
}

const sorts: readonly Note["sort"][] = ["to do", "changed", "left out"];

/** The notes in the order of their urgency; equal ones are one line. */
export function summaryLines(notes: readonly Note[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const sort of sorts) {
    for (const note of notes) {
      if (note.sort === sort) counts.set(noteLine(note), (counts.get(noteLine(note)) ?? 0) + 1);
    }
  }
  return [...counts].map(([line, count]) => (count === 1 ? line : `${line} (${count} times)`));
}

const requestDefaults = "is no default of a model here: clients set it";
const modelDefaults = "is set in defaults of a model, if all of its deployments have the same value in its range";
const ejection = "deployments that fail are ejected and probed again without a setting";
const retries = "retries follow a retry budget: 20 % of a model's requests and 10 a second";
const store = "replicas share their state through Redis: set state.redis_url (REDIS_URL)";
const keys = "keys, teams and budgets are not moved: create keys with uis keys create, budgets with uis thresholds add";
const observing = "requests are observed with webhooks, metrics and traces: docs/webhooks.md, docs/operations.md";
const discovered =
  "context lengths and abilities are discovered; set context_length and capabilities of the deployment to override";
const otherwise = "has no counterpart";

/** Why a setting of LiteLLM is left out; the first form that matches counts. */
const reasons: readonly (readonly [RegExp, string])[] = [
  [/^(temperature|top_p|min_p|repetition_penalty|max_tokens|stop)$/, modelDefaults],
  [
    /^(top_k|max_completion_tokens|seed|n|user|response_format|tools|tool_choice|presence_penalty|frequency_penalty)$/,
    requestDefaults,
  ],
  [/^(logprobs|reasoning_effort|thinking|stream)$/, requestDefaults],
  [/^(allowed_fails|allowed_fails_policy|cooldown_time|disable_cooldowns)$/, ejection],
  [/^(num_retries|max_retries|retry_after|retry_policy|model_group_retry_policy)$/, retries],
  [/^redis_|^cache_(responses|kwargs)$/, store],
  [/^(cache|cache_params|caching_groups)$/, "answers are not cached: every request is computed"],
  [/^routing_strategy/, "a request goes to the deployment with the least outstanding work for its weight"],
  [/^enable_pre_call_checks$/, "deployments that cannot take a request are always skipped"],
  [/^context_window_fallbacks$/, "a prompt that is too long is the caller's error and is not tried elsewhere"],
  [/^content_policy_fallbacks$/, "an answer that was ended by a content filter is not tried elsewhere"],
  [
    /^(drop_params|additional_drop_params|allowed_openai_params|modify_params)$/,
    "unknown fields are dropped, unless pass_through of the deployment names them",
  ],
  [/^extra_body$/, "clients send these fields; name them in pass_through of the deployment"],
  [/callback|^(alerting|alert|telemetry|set_verbose|json_logs|debug|turn_off_message_logging|langfuse)/, observing],
  [
    /^(database|store_model_in_db|proxy_budget|proxy_batch|default_team_settings|max_budget|budget_duration|default_internal)/,
    keys,
  ],
  [/^(max_input_tokens|max_output_tokens|context_window|supports_.*|base_model)$/, discovered],
  [/cost_per_/, "prices are per token of prompt and answer"],
  [/^(azure_ad_token|tenant_id|client_id|client_secret|aws_.*|vertex_.*)$/, "only API keys are supported"],
  [/^ssl_verify$/, "certificates are always verified: set tls.ca_file of the upstream for a CA of your own"],
  [/^mock_/, "for canned answers use the engine scripted"],
  [/^[rt]pm$/, "a deployment has no limit of its own; where all deployments of a model have one, it is their weight"],
];

export function reasonOf(name: string): string {
  return reasons.find(([form]) => form.test(name))?.[1] ?? otherwise;
}

/** Why a setting of `model_info` is left out. Some names mean something else there than in other groups. */
export function infoReasonOf(name: string): string {
  return name === "max_tokens" ? discovered : reasonOf(name);
}
