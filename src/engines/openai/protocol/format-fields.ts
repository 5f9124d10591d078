import { EngineError } from "../../../domain/engine/engine.js";
import type { Constraint, TextFormat } from "../../../domain/engine/text-format.js";
import { jsonString } from "../../../lib/json-string.js";

/** Servers with fields of their own that constrain a text; OpenAI's API has only `response_format` of chats. */
export type FormatFields = "vllm" | "sglang" | "llama-server";

/** Constraints that the servers enforce and for which this engine sets their fields. */
export const keptConstraints: Readonly<Record<FormatFields, readonly Constraint[]>> = {
  vllm: ["choice", "regex", "grammar", "min_tokens", "ignore_eos"],
  sglang: ["choice", "regex", "grammar", "min_tokens", "ignore_eos"],
  "llama-server": ["choice", "grammar", "ignore_eos"],
};

/** Further fields for constraints, which the servers themselves enforce or reject. */
export const knownFields: Readonly<Record<FormatFields, readonly string[]>> = {
  vllm: [
    ...["structured_outputs", "truncate_prompt_tokens", "continue_final_message", "add_generation_prompt"],
    ...["chat_template", "documents", "bad_words", "allowed_token_ids", "stop_token_ids"],
    ...["include_stop_str_in_output", "skip_special_tokens"],
  ],
  sglang: ["regex", "ebnf", "stop_token_ids", "continue_final_message", "skip_special_tokens"],
  "llama-server": ["grammar", "json_schema", "grammar_lazy", "grammar_triggers", "add_generation_prompt"],
};

/**
 * The server's field for a constraint that `response_format` cannot express, or for any constraint of a text completion.
 * Throws EngineError `unsupported` for a constraint that the server does not have. The schema of a format must be JSON.
 */
export function formatField(format: TextFormat, fields: FormatFields | null): readonly [name: string, json: string] {
  if (fields === "vllm") return ["structured_outputs", `{${structuredOutput(format)}}`];
  const field = fields === null ? null : fields === "sglang" ? sglangField(format) : llamaField(format);
  if (field !== null) return field;
  const param = format.param ?? "response_format";
  throw new EngineError("unsupported", `'${param}' is not supported by the server of the model.`, { param });
}

function structuredOutput(format: TextFormat): string {
  switch (format.type) {
    case "json_object":
      return '"json_object":true';
    case "json_schema":
      return `"json":${format.schemaJson}`;
    case "choice":
      return `"choice":${JSON.stringify(format.choices)}`;
    case "regex":
      return `"regex":${jsonString(format.regex)}`;
    case "grammar":
      return `"grammar":${jsonString(format.grammar)}`;
  }
}

function sglangField(format: TextFormat): readonly [string, string] | null {
  switch (format.type) {
    case "json_object":
      return ["json_schema", jsonString('{"type":"object"}')];
    case "json_schema":
      return ["json_schema", jsonString(format.schemaJson)];
    case "choice":
      return ["regex", jsonString(`(?:${format.choices.map(escapedForRegex).join("|")})`)];
    case "regex":
      return ["regex", jsonString(format.regex)];
    case "grammar":
      return ["ebnf", jsonString(format.grammar)];
  }
}

function escapedForRegex(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

/** The field of llama-server, which has none for regular expressions. */
function llamaField(format: TextFormat): readonly [string, string] | null {
  switch (format.type) {
    case "json_object":
      return ["json_schema", '{"type":"object"}'];
    case "json_schema":
      return ["json_schema", format.schemaJson];
    case "choice":
      return ["grammar", jsonString(`root ::= ${format.choices.map(gbnfLiteral).join(" | ")}\n`)];
    case "regex":
      return null;
    case "grammar":
      return ["grammar", jsonString(format.grammar)];
  }
}

/** A GBNF literal. Characters other than printable ASCII are escaped by number, so that none ends the literal or the line. */
function gbnfLiteral(text: string): string {
  const escaped = text.replaceAll(/[^ !#-[\]-~]/gu, (character) => {
    const hex = (character.codePointAt(0) ?? 0).toString(16);
    return `\\U${hex.padStart(8, "0")}`;
  });
  return `"${escaped}"`;
}
