import * as jinja from "@huggingface/jinja";

/** A value while a template runs. `type` is the name of its class. */
export interface JinjaValue {
  readonly type: string;
  readonly value: unknown;
  /** The truth value in a condition, as in Python. */
  __bool__(): { readonly value: boolean };
  toString(): string;
}

export interface JinjaEnvironment {
  /** Declares a variable with the converted value, which it returns; throws if the name exists. */
  set(name: string, value: unknown): JinjaValue;
  setVariable(name: string, value: JinjaValue): JinjaValue;
  /** The variable in this scope or an outer one, or an undefined value. */
  lookupVariable(name: string): JinjaValue;
}

/** A node of a parsed template. */
export interface JinjaNode {
  readonly type: string;
}

export interface NameNode extends JinjaNode {
  readonly value: string;
}

export interface TupleNode extends JinjaNode {
  readonly value: readonly JinjaNode[];
}

export interface ForNode extends JinjaNode {
  readonly loopvar: NameNode | TupleNode;
  readonly iterable: JinjaNode;
  readonly body: readonly JinjaNode[];
  /** Runs if there are no items. */
  readonly defaultBlock: readonly JinjaNode[];
}

/** The items of a loop with a condition. */
export interface SelectNode extends JinjaNode {
  readonly lhs: JinjaNode;
  readonly test: JinjaNode;
}

export interface BinaryNode extends JinjaNode {
  readonly operator: { readonly value: string };
  readonly left: JinjaNode;
  readonly right: JinjaNode;
}

export interface MemberNode extends JinjaNode {
  readonly object: JinjaNode;
  /** The name after the dot or, if `computed`, the expression in brackets. */
  readonly property: JinjaNode;
  readonly computed: boolean;
}

export interface CallNode extends JinjaNode {
  readonly callee: JinjaNode;
  readonly args: readonly JinjaNode[];
}

export interface TestNode extends JinjaNode {
  readonly operand: JinjaNode;
  readonly negate: boolean;
  readonly test: NameNode;
}

/** The library's methods that evaluate nodes, which the library's own `evaluate` calls. */
export interface JinjaInterpreter {
  run(program: JinjaNode): JinjaValue;
  evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue;
  evaluateBlock(statements: readonly JinjaNode[], environment: JinjaEnvironment): JinjaValue;
  evaluateFor(node: ForNode, environment: JinjaEnvironment): JinjaValue;
  evaluateBinaryExpression(node: BinaryNode, environment: JinjaEnvironment): JinjaValue;
  evaluateMemberExpression(node: MemberNode, environment: JinjaEnvironment): JinjaValue;
  evaluateCallExpression(node: CallNode, environment: JinjaEnvironment): JinjaValue;
  evaluateTestExpression(node: TestNode, environment: JinjaEnvironment): JinjaValue;
  /** Values of arguments by position, and by name. */
  evaluateArguments(
    args: readonly JinjaNode[],
    environment: JinjaEnvironment,
  ): readonly [readonly JinjaValue[], ReadonlyMap<string, JinjaValue>];
  /** `filter`: its name, or a call with its name. */
  applyFilter(operand: JinjaValue, filter: NameNode | CallNode, environment: JinjaEnvironment): JinjaValue;
}

/**
 * The parts of @huggingface/jinja below its `Template`. Its declaration files import each other without file names, which
 * module resolution of Node does not follow, so their types are stated here. Its version is pinned.
 */
export const Environment: new (parent?: JinjaEnvironment) => JinjaEnvironment = jinja.Environment;
export const Interpreter: new (environment: JinjaEnvironment) => JinjaInterpreter = jinja.Interpreter;
const tokenize: (source: string, options: object) => readonly unknown[] = jinja.tokenize;
const parse: (tokens: readonly unknown[]) => JinjaNode = jinja.parse;

/**
 * Parses a template; throws if the text is invalid. Blocks remove the white space around them, as all chat templates
 * expect.
 */
export function parseTemplate(source: string): JinjaNode {
  return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
}

/** A value of the template exceeded its bound. */
export class TemplateTooLarge extends Error {
  override readonly name = "TemplateTooLarge";
}

/** 4 MiB of UTF-16 code units: more text than the context of any model holds. */
export const templateCharsMax = 4 * 1024 * 1024;
export const templateItemsMax = 100_000;

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
