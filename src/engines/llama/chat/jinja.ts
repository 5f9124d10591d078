import * as jinja from "@huggingface/jinja";

/** A value while a template runs. */
export interface JinjaValue {
  readonly type: string;
  readonly value: unknown;
}

export interface JinjaEnvironment {
  /** Declares a variable; throws if the name exists. */
  set(name: string, value: unknown): unknown;
}

export interface JinjaInterpreter {
  run(program: JinjaProgram): JinjaValue;
  evaluate(statement: unknown, environment: JinjaEnvironment): JinjaValue;
}

/** A parsed template, opaque to its users. */
export type JinjaProgram = { readonly type: string };

/**
 * The parts of @huggingface/jinja below its `Template`. Its declaration files import each other without file names, which
 * module resolution of Node does not follow, so their types are stated here.
 */
export const Environment: new () => JinjaEnvironment = jinja.Environment;
export const Interpreter: new (environment: JinjaEnvironment) => JinjaInterpreter = jinja.Interpreter;
const tokenize: (source: string, options: object) => readonly unknown[] = jinja.tokenize;
const parse: (tokens: readonly unknown[]) => JinjaProgram = jinja.parse;

/**
 * Parses a template; throws if the text is invalid. Blocks remove the white space around them, as all chat templates
 * expect.
 */
export function parseTemplate(source: string): JinjaProgram {
  return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
}

/** A value of the template exceeded its bound. */
export class TemplateTooLarge extends Error {
  override readonly name = "TemplateTooLarge";
}

/** 4 MiB of UTF-16 code units: more text than the context of any model holds. */
export const templateCharsMax = 4 * 1024 * 1024;
const templateItemsMax = 100_000;

/**
 * Refuses any text or list above its bound as soon as it exists. The time limit is not enough: a list that doubles
 * itself takes all memory within a second.
 */
export class TemplateInterpreter extends Interpreter {
  override evaluate(statement: unknown, environment: JinjaEnvironment): JinjaValue {
    const result = super.evaluate(statement, environment);
    const { value } = result;
    if (typeof value === "string" && value.length > templateCharsMax) {
      throw new TemplateTooLarge(`a text of more than ${templateCharsMax} characters`);
    }
    if (Array.isArray(value) && value.length > templateItemsMax) {
      throw new TemplateTooLarge(`a list of more than ${templateItemsMax} items`);
    }
    return result;
  }
}

/** The template called `raise_exception`, because it cannot express the conversation. */
export class TemplateRefusal extends Error {
  override readonly name = "TemplateRefusal";
}

/** The globals of every chat template. `now`: the time for `strftime_now`. */
export function templateGlobals(now: () => Date): Readonly<Record<string, unknown>> {
  return {
    true: true,
    True: true,
    false: false,
    False: false,
    none: null,
    None: null,
    range,
    raise_exception: (why: unknown): never => {
      throw new TemplateRefusal(String(why));
    },
    strftime_now: (format: unknown): string => strftime(now(), String(format)),
  };
}

function range(first: number, second?: number, step = 1): readonly number[] {
  const [from, to] = second === undefined ? [0, first] : [first, second];
  if (!Number.isInteger(from) || !Number.isInteger(to) || !Number.isInteger(step) || step === 0) {
    throw new TypeError("range takes whole numbers and a step other than 0");
  }
  const length = Math.max(0, Math.ceil((to - from) / step));
  if (length > templateItemsMax) throw new TemplateTooLarge(`a range of more than ${templateItemsMax} numbers`);
  return Array.from({ length }, (_, i) => from + i * step);
}

const inWords = (options: Intl.DateTimeFormatOptions) => (at: Date) =>
  at.toLocaleDateString("en-US", { ...options, timeZone: "UTC" });

const fields: Readonly<Record<string, (at: Date) => string>> = {
  Y: (at) => String(at.getUTCFullYear()),
  y: (at) => twoDigits(at.getUTCFullYear() % 100),
  m: (at) => twoDigits(at.getUTCMonth() + 1),
  d: (at) => twoDigits(at.getUTCDate()),
  e: (at) => String(at.getUTCDate()).padStart(2, " "),
  H: (at) => twoDigits(at.getUTCHours()),
  I: (at) => twoDigits(at.getUTCHours() % 12 || 12),
  M: (at) => twoDigits(at.getUTCMinutes()),
  S: (at) => twoDigits(at.getUTCSeconds()),
  p: (at) => (at.getUTCHours() < 12 ? "AM" : "PM"),
  A: inWords({ weekday: "long" }),
  a: inWords({ weekday: "short" }),
  B: inWords({ month: "long" }),
  b: inWords({ month: "short" }),
  Z: () => "UTC",
  "%": () => "%",
};

/** Formats a time in UTC with the strftime directives that chat templates use; others stay unchanged. */
function strftime(at: Date, format: string): string {
  return format.replaceAll(/%(.)/g, (directive, letter: string) => fields[letter]?.(at) ?? directive);
}

function twoDigits(value: number): string {
  return String(value).padStart(2, "0");
}
