import { EngineError } from "../../../domain/engine/engine.js";

/** Text that is tokenized with control tokens on (the template's) or off (what users wrote that spells a control token). */
export interface PromptPiece {
  readonly text: string;
  readonly control: boolean;
}

const privateUseFirst = 0xe000;
const privateUseLast = 0xf8ff;
/** The characters themselves, and as JSON writes them in ASCII. */
const privateUse = /[\uE000-\uF8FF]|\\u(?:e[0-9a-f]{3}|f[0-8][0-9a-f]{2})/gi;

/**
 * Keeps what users wrote apart from what the template writes. Before rendering, one character that occurs nowhere in the
 * input is put behind the first character of every control text in it. Afterwards the marks are taken out again, and
 * where one stood inside of a control text that is still whole, that text is the user's. A mark says something about the
 * place where it is and needs no partner, so the template may trim, split, cut and quote what it is given.
 */
export class ControlMarks {
  readonly #texts: ControlTexts;
  readonly #mark: string;

  /** `input`: all that will be marked. Throws EngineError `bad_input` where no private-use character is left. */
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
    const parts = rendered.split(new RegExp(`${this.#mark}|${asciiEscape(this.#mark)}`, "gi"));
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

/** Ranges come in order of their starts; those that overlap become one. */
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
    for (const [match] of text.matchAll(privateUse)) used.add(privateUseCode(match));
    return text;
  });
  for (let code = privateUseFirst; code <= privateUseLast; code++) {
    if (!used.has(code)) return String.fromCharCode(code);
  }
  const message = "The messages use every private-use character (U+E000 to U+F8FF); one of them has to be left free.";
  throw new EngineError("bad_input", message, { param: "messages" });
}

function privateUseCode(match: string): number {
  return match.length === 1 ? match.charCodeAt(0) : Number.parseInt(match.slice(2), 16);
}

/** As a pattern: a backslash and what follows it in a JSON text. */
function asciiEscape(mark: string): string {
  return `\\\\u${mark.charCodeAt(0).toString(16)}`;
}

function pointLength(text: string, at: number): number {
  return (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
}

function pointLengthBefore(text: string, at: number): number {
  return at >= 2 && pointLength(text, at - 2) === 2 ? 2 : Math.min(1, at);
}

interface Node {
  readonly next: Map<number, Node>;
  /** Whether a text ends here. */
  ends: boolean;
}

/** The texts of a vocabulary's control tokens, to be found in other text in time linear in that text. */
export class ControlTexts {
  /** UTF-16 length of the longest one. */
  readonly longest: number;
  readonly #root: Node = { next: new Map(), ends: false };

  constructor(texts: readonly string[]) {
    this.longest = texts.reduce((longest, { length }) => Math.max(longest, length), 0);
    for (const text of texts) if (text !== "") this.#add(text);
  }

  /** UTF-16 length of the longest control text that starts at `at`; 0: none does. */
  lengthAt(text: string, at: number): number {
    let node = this.#root.next.get(text.charCodeAt(at));
    let length = 0;
    for (let end = at + 1; node !== undefined; end++) {
      if (node.ends) length = end - at;
      node = node.next.get(text.charCodeAt(end));
    }
    return length;
  }

  /** Where control texts start, overlapping ones too; in order. */
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

/** Built once for each list, because vocabularies have thousands and every prompt asks. */
export function controlTextsOf(texts: readonly string[]): ControlTexts {
  const found = known.get(texts) ?? new ControlTexts(texts);
  known.set(texts, found);
  return found;
}

/** The same JSON-like value with every text in it changed, names of members below the first level included. */
export function mapTexts<T>(value: T, change: (text: string) => string): T {
  return mapped(value, change) as T;
}

/** As `mapTexts`, with the names of the first level kept. */
export function mapMemberTexts<T extends object>(value: T, change: (text: string) => string): T {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, mapped(member, change)])) as T;
}

function mapped(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item) => mapped(item, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [change(name), mapped(member, change)]));
}
