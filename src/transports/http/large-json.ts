import type { ServiceLimits } from "../../contract/limits.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { Turns } from "../../lib/clock.js";
import { decode, forbiddenKey, JsonObject, parse, refuseForbiddenKeys, withoutMark } from "./json-object.js";
import { endsScalar, isWhitespace, JsonSource, type SourceTexts, tooDeep, tooManyTokens } from "./json-scan.js";

/** Bodies of at least this size are parsed in steps: parsing them in one piece would delay other requests. */
export const largeBodyBytesMin = 262_144;
/** Bytes that are decoded and parsed in one step, which takes up to about a millisecond. */
const stepBytes = 131_072;

type Limits = Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">;

/**
 * `parseJsonBody` for a large body: the event loop runs other work between the steps. A worker thread would save no time:
 * its result would have to be copied and built again in this thread.
 */
export async function parseLargeJsonBody(body: Buffer, limits: Limits): Promise<JsonObject> {
  const bytes = withoutMark(body);
  const reader = new LargeJson(bytes, limits, stepBytes);
  const value = await reader.read();
  return JsonObject.ofBody(value, () => new MemberSources(bytes, reader.members));
}

/** The value of large JSON, parsed in several turns of the event loop. Rejects with ServiceError `invalid_json`. */
export function parseLargeJson(body: Buffer, limits: Limits): Promise<unknown> {
  return new LargeJson(withoutMark(body), limits, stepBytes).read();
}

/** An object or a list whose end was not read yet. */
interface Container {
  readonly isObject: boolean;
  readonly start: number;
  /** Start of the current member or item. */
  itemAt: number;
  /** Whether the key of the current member was read. */
  hasKey: boolean;
  /** The part that is built; null while the whole container may still be parsed in one step. */
  value: Record<string, unknown> | unknown[] | null;
  /** Whether it is the value of a key `constructor`, which must not get a `prototype`. */
  isConstructor: boolean;
  /** What was added last: nothing, items up to and with a comma, or one item whose comma or end was not read yet. */
  last: "nothing" | "comma" | "item";
}

/** Byte range `[start, end)` of a member of the body's object. */
type Member = readonly [start: number, end: number];

const [quote, backslash, comma, colon] = [...'"\\,:'].map((c) => c.charCodeAt(0)) as [number, number, number, number];
const [openBrace, closeBrace, openBracket, closeBracket] = [..."{}[]"].map((c) => c.charCodeAt(0));

/**
 * Parses JSON in steps of whole items. A scan of the bytes finds a comma about every `stepBytes`. JSON.parse parses the
 * items before the comma, and they are added to the objects and lists that are still open there. A long string is parsed in
 * parts. Applies the bounds of bodies and refuses forbidden keys (SEC-9, SEC-11). Throws ServiceError `invalid_json`.
 */
export class LargeJson {
  /** Members of the outermost object that were read so far. */
  readonly members: Member[] = [];
  readonly #bytes: Buffer;
  readonly #limits: Limits;
  readonly #stepBytes: number;
  readonly #turns = new Turns();
  readonly #open: Container[] = [];
  /** Number of open containers with a value. */
  #built = 0;
  /** Start of the bytes that were not parsed yet. */
  #from = 0;
  #at = 0;
  #tokens = 0;
  #root: unknown;

  constructor(bytes: Buffer, limits: Limits, stepLength: number) {
    this.#bytes = bytes;
    this.#limits = limits;
    this.#stepBytes = stepLength;
  }

  async read(): Promise<unknown> {
    const bytes = this.#bytes;
    while (this.#at < bytes.length) {
      const at = this.#at;
      const code = bytes[at] ?? 0;
      this.#at += 1;
      if (isWhitespace[code] === 1) continue;
      if (code === quote) {
        this.#count();
        let end = endOfString(bytes, at + 1, this.#stepBytes);
        while (end < bytes.length && bytes[end] !== quote) {
          await this.#turns.next();
          end = endOfString(bytes, end, this.#stepBytes);
        }
        this.#at = end + 1;
        if (end - at > this.#stepBytes && this.#isValue) await this.#longString(at, end);
      } else if (code === openBrace || code === openBracket) this.#enter(code === openBrace, at);
      else if (code === closeBrace || code === closeBracket) {
        this.#leave(code === closeBrace, at);
        if (this.#open.length === 0) break;
      } else if (code === comma) {
        this.#itemEnded(at);
        if (at - this.#from >= this.#stepBytes) {
          this.#build();
          await this.#turns.next();
        }
      } else if (code === colon) {
        const container = this.#open.at(-1);
        if (container !== undefined) container.hasKey = true;
      } else {
        this.#count();
        while (this.#at < bytes.length && endsScalar[bytes[this.#at] ?? 0] === 0) this.#at += 1;
      }
    }
    // The JSON is not closed, or is neither an object nor a list.
    if (this.#open.length > 0 || this.#root === undefined)
      return this.#parsePart("", this.#text(0, bytes.length), "", 0);
    if (this.#text(this.#at, bytes.length).trim() !== "") throw invalid(this.#at);
    return this.#root;
  }

  /** Whether a string at the current position is a value in an object or a list. */
  get #isValue(): boolean {
    const container = this.#open.at(-1);
    return container !== undefined && (!container.isObject || container.hasKey);
  }

  #count(): void {
    this.#tokens += 1;
    const { jsonTokensMax } = this.#limits;
    if (this.#tokens > jsonTokensMax) throw tooManyTokens(jsonTokensMax);
  }

  #enter(isObject: boolean, start: number): void {
    this.#count();
    const itemAt = start + 1;
    this.#open.push({ isObject, start, itemAt, hasKey: false, value: null, isConstructor: false, last: "nothing" });
    const { jsonDepthMax } = this.#limits;
    if (this.#open.length > jsonDepthMax) throw tooDeep(jsonDepthMax);
  }

  #leave(isObject: boolean, at: number): void {
    this.#count();
    this.#itemEnded(at);
    const container = this.#open.pop();
    if (container === undefined || container.isObject !== isObject) throw invalid(at);
    if (this.#open.length >= this.#built) {
      if (this.#open.length === 0) this.#root = this.#parsePart("", this.#text(0, at + 1), "", 0);
      return;
    }
    this.#add(container, this.#from, at, false);
    this.#built -= 1;
    this.#from = at + 1;
  }

  #itemEnded(at: number): void {
    const container = this.#open.at(-1);
    if (container === undefined) throw invalid(at);
    if (this.#open.length === 1 && container.isObject) this.members.push([container.itemAt, at]);
    container.itemAt = at + 1;
    container.hasKey = false;
  }

  /** Creates the values of all open containers, with their items before the current position. */
  #build(): void {
    for (let depth = Math.max(0, this.#built - 1); depth < this.#open.length; depth += 1) {
      const container = this.#open[depth];
      if (container === undefined) return;
      if (container.value === null) {
        container.value = container.isObject ? {} : [];
        const parent = this.#open[depth - 1];
        if (parent !== undefined) {
          container.isConstructor = this.#put(parent, container.value, container.start) === "constructor";
        }
        if (depth === 0) {
          if (this.#text(0, container.start).trim() !== "") throw invalid(0);
          this.#root = container.value;
        }
        this.#built += 1;
        this.#from = container.start + 1;
      }
      this.#add(container, this.#from, container.itemAt, true);
      this.#from = container.itemAt;
    }
  }

  /** Adds an item whose value was built separately; the bytes before it are its key. Returns the key, or "0" in a list. */
  #put(parent: Container, item: unknown, itemStart: number): string {
    const [open, close] = bracketsOf(parent);
    const at = parent.itemAt;
    const part = this.#parsePart(open, `${this.#text(at, itemStart)}[]`, close, at);
    const [key] = Object.keys(part as object);
    if (key === undefined) throw invalid(at);
    if (parent.isConstructor && key === "prototype") throw forbiddenKey("constructor");
    if (Array.isArray(parent.value)) parent.value.push(item);
    else if (parent.value !== null) parent.value[key] = item;
    parent.last = "item";
    return key;
  }

  /** Parses the items in `[from, to)` and adds them. `hasNext`: another item follows, so the range ends with a comma. */
  #add(container: Container, from: number, to: number, hasNext: boolean): void {
    const { value, last } = container;
    let text = this.#text(from, to);
    if (last === "item") {
      const start = /^[ \t\n\r]*,/.exec(text)?.[0];
      if (start === undefined) {
        if (hasNext || text.trim() !== "") throw invalid(from);
        return;
      }
      text = text.slice(start.length);
    }
    if (hasNext) {
      if (last === "item") container.last = "comma";
      if (text === "") return;
      text = text.slice(0, -1);
      container.last = "comma";
    }
    if (text.trim() === "") {
      if (hasNext || last !== "nothing") throw invalid(to);
      return;
    }
    const [open, close] = bracketsOf(container);
    const part = this.#parsePart(open, text, close, from);
    if (Array.isArray(value)) for (const item of part as unknown[]) value.push(item);
    else Object.assign(value as object, part);
    if (container.isConstructor && Object.hasOwn(part as object, "prototype")) throw forbiddenKey("constructor");
  }

  /** Adds a string. `start` and `end` are the positions of its quotes. */
  async #longString(start: number, end: number): Promise<void> {
    const container = this.#open.at(-1);
    if (container === undefined || this.#bytes[end] !== quote) return;
    this.#build();
    await this.#turns.next();
    const parts: string[] = [];
    for (let from = start + 1; from < end; ) {
      const to = cutOfString(this.#bytes, from, end, this.#stepBytes);
      parts.push(this.#parsePart('"', this.#text(from, to), '"', from) as string);
      from = to;
      await this.#turns.next();
    }
    this.#put(container, parts.join(""), start);
    this.#from = end + 1;
    await this.#turns.next();
  }

  #text(from: number, to: number): string {
    return decode(this.#bytes.subarray(from, to));
  }

  #parsePart(open: string, text: string, close: string, offset: number): unknown {
    const value = parse(`${open}${text}${close}`, offset - open.length);
    if (text.includes("proto") || text.includes("\\u")) refuseForbiddenKeys(value);
    return value;
  }
}

function bracketsOf({ isObject }: Container): readonly [string, string] {
  return isObject ? ["{", "}"] : ["[", "]"];
}

function invalid(at: number): ServiceError {
  return new ServiceError("invalid_json", `The body is not valid JSON (at position ${at}).`);
}

/**
 * Position of the closing quote of a string, searched from a position inside it. Without a quote in the next `length`
 * bytes: the position where the search can continue, or the length of the bytes.
 */
function endOfString(bytes: Buffer, from: number, length: number): number {
  const until = Math.min(bytes.length, from + length);
  let at = from;
  while (at < until && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1;
  return Math.min(at, bytes.length);
}

/** Bytes of the longest escape: a `\u` and four digits. */
const escapeBytes = 6;

/** End of the part of a string that starts at `from`: after at most `length` bytes, never inside a character or an escape. */
function cutOfString(bytes: Buffer, from: number, end: number, length: number): number {
  let cut = from + length;
  if (cut >= end) return end;
  while (cut > from + 1 && ((bytes[cut] ?? 0) & 0xc0) === 0x80) cut -= 1;
  let last = cut - 1;
  while (last >= from && last > cut - escapeBytes && bytes[last] !== backslash) last -= 1;
  if (last < from || last <= cut - escapeBytes) return cut;
  let first = last;
  while (first > from && bytes[first - 1] === backslash) first -= 1;
  // Cuts before the backslashes; if the part has only backslashes, between two pairs of them.
  return first > from ? first : Math.max(from + 2, from + ((last + 1 - from) & ~1));
}

/** Source texts of a large body. Decodes only the requested members. */
class MemberSources implements SourceTexts {
  readonly #bytes: Buffer;
  readonly #members: readonly Member[];
  readonly #sources = new Map<string, JsonSource | undefined>();
  #spans: ReadonlyMap<string, Member> | null = null;

  constructor(bytes: Buffer, members: readonly Member[]) {
    this.#bytes = bytes;
    this.#members = members;
  }

  textAt(path: string): string | undefined {
    const key = /^[^.[]*/.exec(path)?.[0] ?? "";
    if (!this.#sources.has(key)) this.#sources.set(key, this.#sourceOf(key));
    return this.#sources.get(key)?.textAt(path);
  }

  #sourceOf(key: string): JsonSource | undefined {
    this.#spans ??= new Map(this.#members.map((member) => [this.#keyOf(member), member]));
    const span = this.#spans.get(key);
    return span && new JsonSource(`{${decode(this.#bytes.subarray(...span))}}`);
  }

  #keyOf([start]: Member): string {
    const at = this.#bytes.indexOf(quote, start);
    return JSON.parse(
      decode(this.#bytes.subarray(at, endOfString(this.#bytes, at + 1, this.#bytes.length) + 1)),
    ) as string;
  }
}
