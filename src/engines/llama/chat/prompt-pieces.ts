import { EngineError } from "../../../domain/engine/engine.js";
import type { ChildInput, TemplateMessage } from "../protocol/protocol.js";
import { type ChatTemplate, endsInThinking, type TemplateInput } from "./chat-template.js";
import type { OutputPlan } from "./output-plan.js";
import { hermesClosing, hermesOpening } from "./tool-calls.js";

type ChatInput = Extract<ChildInput, { type: "chat" }>;

/** Text that is tokenized with control tokens (the template's) or without (user input that spells a control token). */
export interface PromptPiece {
  readonly text: string;
  readonly control: boolean;
}

/**
 * The pieces of a chat's prompt, in order. `controlTexts`: the texts of the vocabulary's control tokens, always the same
 * array for one model. Throws as `ChatTemplate.render` does.
 */
export function promptPieces(
  template: ChatTemplate,
  input: ChatInput,
  plan: OutputPlan,
  controlTexts: readonly string[],
): readonly PromptPiece[] {
  const unmarked = templateInput(template, input, plan);
  const marks = new ControlMarks(controlTextsOf(controlTexts), unmarked);
  const put = (text: string): string => marks.put(text);
  const variables = Object.entries(unmarked.variables).map(([name, value]) => [name, mapTexts(value, put)] as const);
  const rendered = template.render({
    messages: mapTexts(unmarked.messages, put),
    tools: mapTexts(unmarked.tools, put),
    variables: Object.fromEntries(variables),
  });
  const pieces = marks.take(rendered);
  // A grammar does not allow thoughts, so thoughts that the template has opened are closed.
  if (plan.grammar === null || !template.thinks || !endsInThinking(rendered)) return pieces;
  return [...pieces, { text: `${rendered.endsWith("\n") ? "" : "\n"}\n</think>\n\n`, control: true }];
}

function templateInput(template: ChatTemplate, input: ChatInput, plan: OutputPlan): TemplateInput {
  const messages = template.toolFormat === null ? withoutToolTurns(input.messages) : input.messages;
  return {
    messages: plan.extraSystem === null ? messages : withSystem(messages, plan.extraSystem),
    tools: plan.templateTools,
    variables: plan.grammar === null ? input.templateVariables : { ...input.templateVariables, enable_thinking: false },
  };
}

function withSystem(messages: readonly TemplateMessage[], text: string): readonly TemplateMessage[] {
  const [first, ...others] = messages;
  if (first?.role !== "system") return [{ role: "system", content: text }, ...messages];
  return [{ ...first, content: `${first.content}\n\n${text}` }, ...others];
}

/**
 * A conversation for a template without tools: calls become text of the assistant, in the form of `toolInstructions`, and
 * results become messages of the user.
 */
function withoutToolTurns(messages: readonly TemplateMessage[]): readonly TemplateMessage[] {
  const turns: TemplateMessage[] = [];
  let results: string[] = [];
  const endResults = (): void => {
    if (results.length > 0) turns.push({ role: "user", content: results.join("\n") });
    results = [];
  };
  for (const message of messages) {
    if (message.role === "tool") {
      results.push(`<tool_response>\n${message.content}\n</tool_response>`);
    } else {
      endResults();
      turns.push(withCallsAsText(message));
    }
  }
  endResults();
  return turns;
}

function withCallsAsText(message: TemplateMessage): TemplateMessage {
  const { tool_calls: calls, ...rest } = message;
  if (calls === undefined || calls.length === 0) return message;
  const texts = calls.map(
    ({ function: { name, arguments: args } }) =>
      `${hermesOpening}\n${JSON.stringify({ name, arguments: args })}\n${hermesClosing}`,
  );
  return { ...rest, content: (message.content === "" ? texts : [message.content, ...texts]).join("\n") };
}

const privateUseFirst = 0xe000;
const privateUseLast = 0xf8ff;
/** Private-use characters themselves, and their ASCII escapes in JSON. */
const privateUse = /[\uE000-\uF8FF]|\\u(?:e[0-9a-f]{3}|f[0-8][0-9a-f]{2})/gi;

/**
 * Distinguishes user input from the template's own text. Before rendering, a character that does not occur in the input
 * is inserted after the first character of every control text in it. Afterwards these marks are removed, and a control
 * text that contained one is the user's. Each mark is independent of the others, so the template may trim, split, cut
 * and quote its input.
 */
class ControlMarks {
  readonly #texts: ControlTexts;
  readonly #mark: string;

  /** `input`: all later arguments of `put`. Throws EngineError `bad_input` if every private-use character occurs in it. */
  constructor(texts: ControlTexts, input: unknown) {
    this.#texts = texts;
    this.#mark = freeCharacter(input);
  }

  put(text: string): string {
    const starts = this.#texts.startsIn(text);
    if (starts.length === 0) return text;
    let marked = "";
    let from = 0;
    for (const start of starts) {
      const to = start + pointLength(text, start);
      marked += text.slice(from, to) + this.#mark;
      from = to;
    }
    return marked + text.slice(from);
  }

  /** The pieces of a rendered prompt; together they are its text without marks. */
  take(rendered: string): readonly PromptPiece[] {
    const jsonEscape = `\\\\u${this.#mark.charCodeAt(0).toString(16)}`;
    const parts = rendered.split(new RegExp(`${this.#mark}|${jsonEscape}`, "gi"));
    const text = parts.join("");
    const ranges: Range[] = [];
    let at = 0;
    for (const part of parts.slice(0, -1)) {
      at += part.length;
      const start = at - pointLengthBefore(text, at);
      addRange(ranges, { start, end: start + this.#texts.lengthAt(text, start) });
    }
    return cut(text, ranges);
  }
}

interface Range {
  readonly start: number;
  readonly end: number;
}

/** Ranges are added in order of their starts; overlapping ones are merged. */
function addRange(ranges: Range[], range: Range): void {
  if (range.end === range.start) return;
  const last = ranges.at(-1);
  if (last === undefined || range.start >= last.end) ranges.push(range);
  else ranges[ranges.length - 1] = { start: last.start, end: Math.max(last.end, range.end) };
}

function cut(text: string, ranges: readonly Range[]): readonly PromptPiece[] {
  const pieces: PromptPiece[] = [];
  let from = 0;
  for (const { start, end } of ranges) {
    if (start > from) pieces.push({ text: text.slice(from, start), control: true });
    pieces.push({ text: text.slice(start, end), control: false });
    from = end;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), control: true });
  return pieces;
}

function freeCharacter(input: unknown): string {
  const used = new Set<number>();
  mapTexts(input, (text) => {
    for (const [match] of text.matchAll(privateUse)) {
      used.add(match.length === 1 ? match.charCodeAt(0) : Number.parseInt(match.slice(2), 16));
    }
    return text;
  });
  for (let code = privateUseFirst; code <= privateUseLast; code++) {
    if (!used.has(code)) return String.fromCharCode(code);
  }
  const message = "The messages use every private-use character (U+E000 to U+F8FF); one of them has to be left free.";
  throw new EngineError("bad_input", message, { param: "messages" });
}

function pointLength(text: string, at: number): number {
  return (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
}

function pointLengthBefore(text: string, at: number): number {
  return at >= 2 && pointLength(text, at - 2) === 2 ? 2 : Math.min(1, at);
}

interface Node {
  readonly next: Map<number, Node>;
  /** Whether a control text ends at this node. */
  ends: boolean;
}

/** Finds the texts of a vocabulary's control tokens in other text, in time linear in that text. */
export class ControlTexts {
  /** UTF-16 length of the longest control text. */
  readonly longest: number;
  readonly #root: Node = { next: new Map(), ends: false };

  constructor(texts: readonly string[]) {
    this.longest = texts.reduce((longest, { length }) => Math.max(longest, length), 0);
    for (const text of texts) if (text !== "") this.#add(text);
  }

  /** UTF-16 length of the longest control text that starts at `at`; 0: none. */
  lengthAt(text: string, at: number): number {
    let node = this.#root.next.get(text.charCodeAt(at));
    let length = 0;
    for (let end = at + 1; node !== undefined; end++) {
      if (node.ends) length = end - at;
      node = node.next.get(text.charCodeAt(end));
    }
    return length;
  }

  /** Indexes at which control texts start, overlapping ones too; in order. */
  startsIn(text: string): readonly number[] {
    const starts: number[] = [];
    for (let at = 0; at < text.length; at++) if (this.lengthAt(text, at) > 0) starts.push(at);
    return starts;
  }

  #add(text: string): void {
    let node = this.#root;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      const next = node.next.get(code) ?? { next: new Map(), ends: false };
      node.next.set(code, next);
      node = next;
    }
    node.ends = true;
  }
}

const known = new WeakMap<readonly string[], ControlTexts>();

/** The search structure for these texts. Built once per array: a vocabulary has thousands, and every prompt needs it. */
export function controlTextsOf(texts: readonly string[]): ControlTexts {
  const found = known.get(texts) ?? new ControlTexts(texts);
  known.set(texts, found);
  return found;
}

/** A copy of a JSON-like value with every text in it replaced, including the names of members. */
function mapTexts<T>(value: T, change: (text: string) => string): T {
  const mapped = (part: unknown): unknown => {
    if (typeof part === "string") return change(part);
    if (Array.isArray(part)) return part.map(mapped);
    if (typeof part !== "object" || part === null) return part;
    return Object.fromEntries(Object.entries(part).map(([name, member]) => [change(name), mapped(member)]));
  };
  return mapped(value) as T;
}
