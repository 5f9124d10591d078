import { isObject } from "../../../lib/json-string.js";
import { parseJson } from "../protocol/upstream-failure.js";
import { indexOf, type Json } from "./chunk-values.js";

/** Members whose values differ between chunks of one form; each must be at the place that `holderOf` gives for its name. */
const members =
  /"(id|created|content|text|reasoning_content|reasoning|prompt_tokens|completion_tokens|total_tokens)":\s*("[^"\\]*(?:\\.[^"\\]*)*"|\d+)/g;
/** Maximum characters of a chunk that is made a form. */
const charsMax = 8_192;
/** Maximum forms that are kept: an answer has about four, and a server may change its fingerprint from answer to answer. */
const formsMax = 16;
/** Maximum forms that an answer may add without `usefulMatches` matches between them: its chunks seem to have no common form. */
const vainMax = 8;
const usefulMatches = 8;
/** Digits of a number that is exact as a double. */
const digitsMax = 15;
/** Backslashes, and control characters, which JSON forbids below U+0020. */
const needsParser = /[\\\p{Cc}]/u;
/** Length above which the JSON parser takes less time than the search for a character that needs it. */
const searchedCharsMax = 48;

/** A value that differs between the chunks of a form. */
interface Hole {
  /** The object in the form's chunk that contains the value. */
  readonly holder: Record<string, unknown>;
  readonly name: string;
  readonly isNumber: boolean;
  /** Whether the value has an effect on the answer. */
  readonly counts: boolean;
}

/**
 * A form of chunks: the literal text around their values. A chunk that matches it is read without JSON.parse, which would
 * allocate ten objects per chunk.
 */
class ChunkForm {
  /** The chunk of the last match. It is changed by the next match. */
  readonly chunk: Json;
  /** The form that followed last; null: none has. */
  next: ChunkForm | null = null;
  /** Number of the last match, for the replacement of the form that was not used for the longest time. */
  usedAt = 0;
  readonly key: string;
  readonly #literals: readonly string[];
  readonly #holes: readonly Hole[];
  /** Index of the hole that has the answer's text; -1: none, or another text, or a count before it. */
  readonly #textHole: number;
  /** Where the text of the last match began. */
  #textAt = 0;
  /** Whether counts of tokens differ. */
  readonly hasCounts: boolean;

  constructor(chunk: Json, literals: readonly string[], holes: readonly Hole[]) {
    this.chunk = chunk;
    this.key = literals.join("\0");
    this.#literals = literals;
    this.#holes = holes;
    const first = holes.findIndex(({ counts }) => counts);
    const texts = holes.filter(({ counts, isNumber }) => counts && !isNumber);
    const isText = texts.length === 1 && texts[0] === holes[first] && /^(content|text)$/.test(texts[0]?.name ?? "");
    this.#textHole = isText ? first : -1;
    this.hasCounts = holes.some(({ counts, isNumber }) => counts && isNumber);
  }

  /** Whether the data has this form. Its values are then those of `chunk`. */
  match(data: string): boolean {
    const [first = ""] = this.#literals;
    return isAt(data, 0, first) && this.#matchFrom(0, data, first.length);
  }

  /** The data of the last match up to its text; null: the form has no text, or another value that counts before it. */
  textPrefix(data: string): string | null {
    return this.#textHole === -1 ? null : data.slice(0, this.#textAt);
  }

  /** Like `match`, for data that begins with a prefix from `textPrefix`. Returns the text; null: another form. */
  matchText(data: string, prefix: string): string | null {
    const hole = this.#holes[this.#textHole];
    if (hole === undefined || !this.#matchFrom(this.#textHole, data, prefix.length)) return null;
    return String(hole.holder[hole.name]);
  }

  #matchFrom(firstHole: number, data: string, from: number): boolean {
    let at = from;
    for (let i = firstHole; i < this.#holes.length; i++) {
      const hole = this.#holes[i];
      if (hole === undefined) return false;
      if (i === this.#textHole) this.#textAt = at;
      const end = hole.isNumber ? numberEnd(data, at) : stringEnd(data, at);
      if (end === -1) return false;
      const value = hole.isNumber ? Number(data.slice(at, end)) : stringValue(data, at, end);
      if (value === undefined) return false;
      if (hole.counts) hole.holder[hole.name] = value;
      const literal = this.#literals[i + 1] ?? "";
      if (!isAt(data, end, literal)) return false;
      at = end + literal.length;
    }
    return at === data.length;
  }
}

/** The forms of the chunks that one model's server sends, for all of its answers. */
export class ChunkForms {
  readonly #forms: ChunkForm[] = [];
  /** The form of the first chunk of the last answer. */
  #first: ChunkForm | null = null;
  #matches = 0;

  /** The form of the data; null: it must be parsed. `after`: the form of the chunk before it; null: unknown, or none. */
  find(data: string, after: ChunkForm | null): ChunkForm | null {
    const expected = after === null ? this.#first : after.next;
    if (expected?.match(data) === true) return this.#used(expected);
    for (const form of this.#forms) {
      if (form === expected || !form.match(data)) continue;
      if (after === null) this.#first = form;
      else after.next = form;
      return this.#used(form);
    }
    return null;
  }

  /** Makes a form of parsed data. Null: none of its values may differ. */
  learn(data: string, chunk: unknown): ChunkForm | null {
    const form = isOneChoice(chunk) ? formOf(data) : null;
    if (form === null || !form.match(data)) return null;
    const known = this.#forms.find(({ key }) => key === form.key);
    if (known?.match(data) === true) return this.#used(known);
    if (this.#forms.length === formsMax) {
      const oldest = this.#forms.reduce((least, each) => (each.usedAt < least.usedAt ? each : least));
      oldest.next = null;
      this.#forms.splice(this.#forms.indexOf(oldest), 1);
    }
    this.#forms.push(form);
    return this.#used(form);
  }

  #used(form: ChunkForm): ChunkForm {
    this.#matches += 1;
    form.usedAt = this.#matches;
    return form;
  }
}

/** Reads the chunks of one answer: those of a known form without JSON.parse. */
export class ChunkReader {
  readonly #forms: ChunkForms;
  /** The form of the last chunk; null: unknown. */
  #form: ChunkForm | null = null;
  /** The last chunk up to its text; null: the next chunk must be read as a whole. */
  #textPrefix: string | null = null;
  /** Number of forms that were added in a row, and of matches since the last one. */
  #learned = 0;
  #matches = 0;

  constructor(forms: ChunkForms) {
    this.#forms = forms;
  }

  /** The chunk; undefined: not JSON. It is valid until the next chunk of any answer is read. */
  read(data: string): unknown {
    this.#textPrefix = null;
    const form = this.#forms.find(data, this.#form);
    if (form !== null) {
      this.#form = form;
      this.#matches += 1;
      return form.chunk;
    }
    const chunk = parseJson(data);
    this.#form = null;
    if (this.#matches >= usefulMatches) this.#learned = 0;
    if (chunk === undefined || data.length > charsMax || this.#learned >= vainMax) return chunk;
    this.#learned += 1;
    this.#matches = 0;
    this.#form = this.#forms.learn(data, chunk);
    return chunk;
  }

  /** Lets `readText` read chunks that differ from the last one, `data`, only in text, counts, id and time. */
  expectText(data: string): void {
    this.#textPrefix = this.#form?.textPrefix(data) ?? null;
  }

  /** The text of a chunk that differs from the one of `expectText` only in these; null: it must be read by `read`. */
  readText(data: string): string | null {
    const prefix = this.#textPrefix;
    if (prefix === null || this.#form === null || !isAt(data, 0, prefix)) return null;
    const text = this.#form.matchText(data, prefix);
    if (text !== null) this.#matches += 1;
    return text;
  }

  /** Whether the chunk that was read by `readText` has counts of tokens. */
  get hasCounts(): boolean {
    return this.#form?.hasCounts === true;
  }

  /** The chunk that was read by `readText`. */
  get chunk(): Json {
    return this.#form?.chunk ?? {};
  }
}

/** Whether the chunk is no error, and has at most one choice and no calls of tools, whose arguments have no form. */
function isOneChoice(chunk: unknown): boolean {
  if (!isObject(chunk) || !Array.isArray(chunk["choices"]) || (chunk["error"] ?? null) !== null) return false;
  const [choice, second]: readonly unknown[] = chunk["choices"];
  if (second !== undefined) return false;
  if (!isObject(choice)) return choice === undefined;
  const { delta } = choice;
  return (
    indexOf(choice) === 0 && !(isObject(delta) && Array.isArray(delta["tool_calls"]) && delta["tool_calls"].length > 0)
  );
}

interface Found {
  readonly name: string;
  readonly isNumber: boolean;
  readonly from: number;
  readonly end: number;
  readonly probe: string | number;
}

/**
 * The form of valid JSON. Each member that may be a hole gets a value of its own in a probe. It is a hole only if the parsed
 * probe has this value at the place of the member, so that a member elsewhere, or a second one of the same name, is none.
 */
function formOf(data: string): ChunkForm | null {
  let found: readonly Found[] = [...data.matchAll(members)].map(foundIn);
  for (;;) {
    const chunk = parseJson(filled(data, found));
    if (!isObject(chunk)) return null;
    const holes = found.flatMap(({ name, isNumber, probe }): readonly Hole[] => {
      const holder = holderOf(chunk, name);
      if (holder?.[name] !== probe) return [];
      return [{ holder, name, isNumber, counts: name !== "id" && name !== "created" }];
    });
    if (holes.length === found.length) return new ChunkForm(chunk, literalsOf(data, found), holes);
    found = found.filter(({ name, probe }) => holderOf(chunk, name)?.[name] === probe);
  }
}

function foundIn({ 0: text, 1: name = "", 2: value = "", index = 0 }: RegExpMatchArray, i: number): Found {
  const end = index + text.length;
  const isNumber = !value.startsWith('"');
  return { name, isNumber, from: end - value.length, end, probe: isNumber ? 9_000_001 + i : `probe ${i}` };
}

/** The data with the probe's values. */
function filled(data: string, found: readonly Found[]): string {
  const literals = literalsOf(data, found);
  return literals.map((literal, i) => literal + (JSON.stringify(found[i]?.probe) ?? "")).join("");
}

function literalsOf(data: string, found: readonly Found[]): readonly string[] {
  return [...found, null].map((each, i) => data.slice(found[i - 1]?.end ?? 0, each?.from ?? data.length));
}

/** The object of a chunk in which the member of this name may differ. */
function holderOf(chunk: Record<string, unknown>, name: string): Record<string, unknown> | null {
  if (name === "id" || name === "created") return chunk;
  if (name.endsWith("_tokens")) return objectOf(chunk["usage"]);
  const choices: unknown = chunk["choices"];
  const choice = Array.isArray(choices) ? objectOf(choices[0]) : null;
  return name === "text" ? choice : objectOf(choice?.["delta"]);
}

function objectOf(value: unknown): Record<string, unknown> | null {
  return isObject(value) ? value : null;
}

/** Like `startsWith`, which takes twice the time for long texts. */
function isAt(data: string, at: number, text: string): boolean {
  return data.slice(at, at + text.length) === text;
}

/** The end of a number of JSON that consists of digits; -1: it has another form, or too many digits. */
function numberEnd(data: string, from: number): number {
  let at = from;
  while (isDigit(data.charCodeAt(at))) at += 1;
  // JSON has no number with a leading zero.
  return at === from || at - from > digitsMax || (data.charCodeAt(from) === 48 && at - from > 1) ? -1 : at;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** The end of a string of JSON, after its quote; -1: there is no string. */
function stringEnd(data: string, from: number): number {
  if (data.charCodeAt(from) !== 34) return -1;
  for (let at = data.indexOf('"', from + 1); at !== -1; at = data.indexOf('"', at + 1)) {
    let escapes = at;
    while (data.charCodeAt(escapes - 1) === 92) escapes -= 1;
    if ((at - escapes) % 2 === 0) return at + 1;
  }
  return -1;
}

/** The value of a string of JSON from its quote; undefined: not JSON. */
function stringValue(data: string, from: number, end: number): string | undefined {
  const text = data.slice(from + 1, end - 1);
  if (text.length <= searchedCharsMax && !needsParser.test(text)) return text;
  const value = parseJson(data.slice(from, end));
  return typeof value === "string" ? value : undefined;
}
