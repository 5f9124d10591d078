/** Constraints of answers that are not in OpenAI's API. `min_tokens` and `ignore_eos` are about the end of an answer. */
export type Constraint = "choice" | "regex" | "grammar" | "min_tokens" | "ignore_eos";

/** Required form of a whole text. `param`: the field that required it, for errors; absent: `response_format`. */
export type TextFormat = { readonly param?: string } & (
  | { readonly type: "json_object" }
  | { readonly type: "json_schema"; readonly name: string; readonly schemaJson: string; readonly strict: boolean }
  /** Exactly one of these texts; at least one. */
  | { readonly type: "choice"; readonly choices: readonly string[] }
  /** A text that the regular expression matches as a whole. */
  | { readonly type: "regex"; readonly regex: string }
  /** A text of the context-free grammar, in GBNF. */
  | { readonly type: "grammar"; readonly grammar: string }
);
