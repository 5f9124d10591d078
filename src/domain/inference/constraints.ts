import { fixedLimits } from "../../contract/limits.js";
import { isObject } from "../../lib/json-string.js";
import { checkCount, checkInteger, checkLength, checkNotEmpty, refuse, refuseValue } from "../call/service-error.js";
import type { Capabilities, GenerateRequest } from "../engine/engine.js";
import type { TextFormat } from "../engine/text-format.js";
import { checkSchema } from "./validate-chat.js";

/** Requirements for an answer that a request states in fields of other servers, such as vLLM's `guided_json`. */
interface Constraints {
  format?: TextFormat;
  minTokens?: number;
  ignoreEos?: boolean;
}

/** Adds the constraints of a request to its engine request. Throws ServiceError as `readConstraints`. */
export function addConstraints(
  request: Constraints & Pick<GenerateRequest, "input" | "maxTokens">,
  fieldsJson: Readonly<Record<string, string>>,
  caps: Capabilities,
  model: string,
): void {
  const { format, minTokens, ignoreEos } = readConstraints(fieldsJson, caps, model, "messages" in request.input);
  if (format !== undefined) {
    if (request.format !== undefined) refuseSecond(format.param ?? "response_format", "response_format");
    request.format = format;
  }
  if (minTokens !== undefined) {
    checkInteger(minTokens, "min_tokens", 0, request.maxTokens ?? fixedLimits.int32Max);
    request.minTokens = minTokens;
  }
  if (ignoreEos === true) request.ignoreEos = true;
}

/**
 * Reads the constraints among the fields outside the contract. Fields that the deployment passes on are left out, because its
 * server keeps or rejects them. A constraint that the deployment cannot keep throws ServiceError `unsupported_parameter`: an
 * answer without it would mislead (CHAT-30).
 */
function readConstraints(
  fieldsJson: Readonly<Record<string, string>>,
  caps: Capabilities,
  model: string,
  isChat: boolean,
): Constraints {
  const found: Constraints = {};
  /** The field with the form of the text. */
  let formField: string | null = null;
  for (const [name, json] of Object.entries(fieldsJson)) {
    const kind = constraintOf(name);
    if (kind === undefined) continue;
    const value = parsed(json, name);
    if (isNeutral(name, value)) continue;
    const isPassed = caps.passedFields?.has(name) === true;
    if (kind === "min_tokens" || kind === "ignore_eos" || kind === "unsupported") {
      if (isPassed) continue;
      if (kind === "unsupported" || caps.constraints?.includes(kind) !== true) refuseConstraint(name, model);
      if (kind === "min_tokens") found.minTokens = asNumber(value, name);
      else found.ignoreEos = asBoolean(value, name);
      continue;
    }
    if (formField !== null) refuseSecond(name, formField);
    formField = name;
    if (isPassed) continue;
    const format = kind === "structured_outputs" ? structuredOutputs(value) : formatOf(kind, value, name);
    if (!canKeep(format, caps, isChat)) refuseConstraint(format.param ?? name, model);
    found.format = format;
  }
  return found;
}

/** Throws if a request has two requirements for the form of its answer. */
function refuseSecond(second: string, first: string): never {
  refuseValue(second, `'${second}' must not be given together with '${first}': one answer has one form.`);
}

type FormatKind = "json" | "json_object" | "choice" | "regex" | "grammar";
type FieldKind = FormatKind | "structured_outputs" | "min_tokens" | "ignore_eos" | "unsupported";

/**
 * Fields of vLLM, SGLang and llama.cpp's server that constrain an answer or its prompt. A client that sends one relies on
 * it, so it must not be ignored. Fields of kind `unsupported` can only be passed on to an upstream that supports them.
 */
export const constraintFields: ReadonlyMap<string, FieldKind> = new Map<string, FieldKind>([
  ["structured_outputs", "structured_outputs"],
  ["guided_json", "json"],
  ["guided_regex", "regex"],
  ["guided_choice", "choice"],
  ["guided_grammar", "grammar"],
  ["json_schema", "json"],
  ["grammar", "grammar"],
  ["regex", "regex"],
  ["ebnf", "grammar"],
  ["min_tokens", "min_tokens"],
  ["ignore_eos", "ignore_eos"],
  ...[
    "structural_tag",
    "grammar_lazy",
    "grammar_triggers",
    "prompt_logprobs",
    "truncate_prompt_tokens",
    "continue_final_message",
    "add_generation_prompt",
    "chat_template",
    "documents",
    "bad_words",
    "allowed_token_ids",
    "stop_token_ids",
    "include_stop_str_in_output",
    "skip_special_tokens",
    "use_beam_search",
  ].map((name) => [name, "unsupported"] as const),
]);

/** The kind of constraint that a field outside the contract sets; undefined if the field is not a known constraint. */
export function constraintOf(name: string): FieldKind | undefined {
  return constraintFields.get(name) ?? (name.startsWith("guided_") ? "unsupported" : undefined);
}

/** Fields for which true is the default and so sets no constraint. */
const onByDefault: ReadonlySet<string> = new Set(["add_generation_prompt", "skip_special_tokens"]);

/**
 * Whether a value is the field's default and sets no constraint. Clients of other servers send every field with its default.
 */
function isNeutral(name: string, value: unknown): boolean {
  if (value === null || value === "") return true;
  if (onByDefault.has(name)) return value === true;
  if (name === "prompt_logprobs" || name === "truncate_prompt_tokens") return false;
  return value === false || value === 0 || (Array.isArray(value) && value.length === 0 && name !== "guided_choice");
}

function refuseConstraint(param: string, model: string): never {
  refuse(
    "unsupported_parameter",
    param,
    `Unsupported parameter: '${param}'. The model '${model}' cannot keep this constraint; leave it out.`,
  );
}

/**
 * Text completions have no `response_format` in OpenAI's API, but a server with grammars can enforce a format for them, too.
 */
function canKeep({ type }: TextFormat, caps: Capabilities, isChat: boolean): boolean {
  const { constraints = [], jsonObject, jsonSchema } = caps;
  if (type !== "json_object" && type !== "json_schema") return constraints.includes(type);
  if (!isChat && !constraints.includes("grammar")) return false;
  return type === "json_object" ? jsonObject : jsonSchema !== "none";
}

function asNumber(value: unknown, param: string): number {
  return typeof value === "number" ? value : wrongType(param, "an integer");
}

function asBoolean(value: unknown, param: string): boolean {
  return typeof value === "boolean" ? value : wrongType(param, "a boolean");
}

const kindsInObject: ReadonlyMap<string, FormatKind> = new Map<string, FormatKind>([
  ["json", "json"],
  ["json_object", "json_object"],
  ["regex", "regex"],
  ["choice", "choice"],
  ["grammar", "grammar"],
]);

/** vLLM's object, which has exactly one form. Options about how the form is enforced cannot be kept. */
function structuredOutputs(value: unknown): TextFormat {
  const at = "structured_outputs";
  if (!isObject(value)) wrongType(at, "an object");
  let format: TextFormat | null = null;
  for (const [name, item] of Object.entries(value)) {
    if (item === null || item === false || name === "disable_fallback") continue;
    const param = `${at}.${name}`;
    const kind = kindsInObject.get(name);
    if (kind === undefined) refuse("unsupported_parameter", param, `Unsupported parameter: '${param}'.`);
    if (format !== null) refuseSecond(param, format.param ?? at);
    format = formatOf(kind, item, param);
  }
  if (format !== null) return format;
  return refuseValue(
    at,
    `'${at}' must have one of 'json', 'json_object', 'regex', 'choice' and 'grammar', but has none.`,
  );
}

function formatOf(kind: FormatKind, value: unknown, param: string): TextFormat {
  switch (kind) {
    case "json_object":
      asBoolean(value, param);
      return { type: "json_object", param };
    case "json": {
      if (!isObject(value) && typeof value !== "string") wrongType(param, "a JSON Schema");
      const schemaJson = typeof value === "string" ? value : JSON.stringify(value);
      checkLength(schemaJson, param, fixedLimits.constraintCharsMax);
      checkSchema(schemaJson, { code: "invalid_json_schema", param });
      // A keyword that cannot be enforced is refused, as with every constraint.
      return { type: "json_schema", name: "answer", schemaJson, strict: true, param };
    }
    case "choice":
      return { type: "choice", choices: readChoices(value, param), param };
    case "regex":
      return { type: "regex", regex: readText(value, param), param };
    case "grammar":
      return { type: "grammar", grammar: readText(value, param), param };
  }
}

function readChoices(value: unknown, param: string): readonly string[] {
  if (!Array.isArray(value)) wrongType(param, "an array of strings");
  checkNotEmpty(value.length, param);
  checkCount(value.length, param, fixedLimits.constraintChoicesMax);
  const texts = value.map((item: unknown, i) => readText(item, `${param}[${i}]`));
  checkLength(texts.join(""), param, fixedLimits.constraintCharsMax);
  return texts;
}

const notWritable = /[\p{Surrogate}\0]/u;

function readText(value: unknown, param: string): string {
  if (typeof value !== "string") wrongType(param, "a string");
  checkLength(value, param, fixedLimits.constraintCharsMax);
  if (notWritable.test(value)) {
    refuseValue(param, `'${param}' must be well-formed Unicode without the character U+0000.`);
  }
  return value;
}

function parsed(json: string, param: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    // The parser's message quotes the input, so it is not passed on.
    return refuseValue(param, `'${param}' must be JSON, but cannot be parsed.`);
  }
}

function wrongType(param: string, expected: string): never {
  refuse("invalid_type", param, `'${param}' must be ${expected}.`);
}
