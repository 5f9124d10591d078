/** Characters that JSON escapes, and those that are not ASCII. */
const notPlain = /[^ !#-[\]-~]/;

/** Whether a text is ASCII without characters that JSON escapes. */
function isPlain(text: string): boolean {
  return !notPlain.test(text);
}

/** A text as a JSON string. The test for plain ASCII takes a third of the time of JSON.stringify. */
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
