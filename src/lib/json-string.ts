/** Characters that JSON escapes, and those that are not ASCII. */
const notPlain = /[^ !#-[\]-~]/;
/** Length from which a copy whose bytes are examined four at a time takes less time than the regular expression. */
const copiedCharsMin = 128;
const copy = Buffer.alloc(16_384);
const words = new Int32Array(copy.buffer);

/** Whether a text is ASCII without characters that JSON escapes. */
function isPlain(text: string): boolean {
  if (text.length < copiedCharsMin) return !notPlain.test(text);
  if (text.includes('"') || text.includes("\\")) return false;
  if (text.length <= copy.length) return isPrintableAscii(text);
  for (let at = 0; at < text.length; at += copy.length) {
    if (!isPrintableAscii(text.slice(at, at + copy.length))) return false;
  }
  return true;
}

/** Whether all characters are from U+0020 to U+007F. The text has at most the length of `copy`. */
function isPrintableAscii(text: string): boolean {
  const { length } = text;
  // UTF-8 has more bytes than the text has characters, unless all are ASCII.
  if (Buffer.byteLength(text) !== length) return false;
  copy.write(text, "latin1");
  for (let at = length; at % 4 !== 0; at++) copy[at] = 0x20;
  // A byte below 0x20 borrows from the highest bit of its place.
  let borrows = 0;
  for (let i = 0; 4 * i < length; i++) borrows |= ((words[i] ?? 0) - 0x20202020) | 0;
  return (borrows & 0x80808080) === 0;
}

/** A text as a JSON string. The test for plain ASCII takes at most half the time of JSON.stringify. */
export function jsonString(text: string): string {
  return isPlain(text) ? `"${text}"` : JSON.stringify(text);
}

/**
 * JSON that is concatenated from parts. While all parts are ASCII, its length in bytes equals the length of the text. To
 * measure other text, V8 would first have to copy the parts into one text.
 */
export class JsonText {
  text = "";
  /** False if a part has other characters or was not examined. */
  isAscii = true;

  /** Adds JSON that is ASCII. */
  add(json: string): this {
    this.text += json;
    return this;
  }

  /** Adds a text as a JSON string. */
  addString(text: string): this {
    if (isPlain(text)) return this.add(`"${text}"`);
    return this.addUnknown(JSON.stringify(text));
  }

  /** Adds JSON that may contain other characters. */
  addUnknown(json: string): this {
    this.isAscii = false;
    return this.add(json);
  }
}

/** Caches the last result of a pure function, for arguments that most requests share. Arguments are compared by `===`. */
export function rememberLast<A, R>(work: (argument: A) => R): (argument: A) => R {
  let last: { readonly argument: A; readonly result: R } | null = null;
  return (argument) => {
    if (last === null || last.argument !== argument) last = { argument, result: work(argument) };
    return last.result;
  };
}

/** Whether a parsed value of JSON or YAML is an object: no list, and not null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
