import { Environment, type JinjaValue } from "./jinja.js";

/** Values of templates with the semantics of Python, where those of @huggingface/jinja differ. */

type ValueClass = new (value: unknown) => JinjaValue;

/** The library does not export its classes of values. */
function classOf(sample: unknown): ValueClass {
  return new Environment().set("sample", sample).constructor as ValueClass;
}

export const StringValue = classOf("");
export const BooleanValue = classOf(true);
export const IntegerValue = classOf(0);
export const ArrayValue = classOf([]);
export const UndefinedValue = classOf(undefined);

export function isText(value: JinjaValue): value is JinjaValue & { readonly value: string } {
  return value.type === "StringValue";
}

export function isList(value: JinjaValue): value is JinjaValue & { readonly value: readonly JinjaValue[] } {
  return value.type === "ArrayValue" || value.type === "TupleValue";
}

export function isMapping(
  value: JinjaValue,
): value is JinjaValue & { readonly value: ReadonlyMap<string, JinjaValue> } {
  return value.type === "ObjectValue";
}

export function isUndefined({ type }: JinjaValue): boolean {
  return type === "UndefinedValue";
}

/** The items of a loop or filter: a text has characters, a mapping its keys, an undefined value nothing. */
export function itemsOf(value: JinjaValue): readonly JinjaValue[] {
  if (isList(value)) return value.value;
  if (isMapping(value)) return [...value.value.keys()].map((key) => new StringValue(key));
  if (isText(value)) return Array.from(value.value, (character) => new StringValue(character));
  if (isUndefined(value)) return [];
  throw new TypeError(`a value of type ${typeName(value)} has no items`);
}

/** Python's `==`: by content, without conversions except between numbers. */
export function areEqual(a: JinjaValue, b: JinjaValue): boolean {
  const [first, second] = [numberOf(a), numberOf(b)];
  if (first !== null || second !== null) return first === second;
  if (isList(a) && isList(b)) {
    const others = b.value;
    return a.value.length === others.length && a.value.every((item, i) => areEqual(item, others[i] ?? item));
  }
  if (isMapping(a) && isMapping(b)) {
    const others = b.value;
    const isSame = ([key, item]: readonly [string, JinjaValue]): boolean => {
      const other = others.get(key);
      return other !== undefined && areEqual(item, other);
    };
    return a.value.size === others.size && [...a.value].every(isSame);
  }
  return a.type === b.type && a.value === b.value;
}

export function contains(list: readonly JinjaValue[], value: JinjaValue): boolean {
  return list.some((item) => areEqual(item, value));
}

/** Numbers, and booleans as Python's numbers; null for other values. */
function numberOf({ type, value }: JinjaValue): number | null {
  const isNumber = type === "IntegerValue" || type === "FloatValue" || type === "BooleanValue";
  return isNumber ? Number(value) : null;
}

/** The value of a dotted path of keys and indexes. */
export function attributeOf(value: JinjaValue, path: string): JinjaValue {
  return path.split(".").reduce<JinjaValue>((part, name) => {
    const isMember = isMapping(part) || part.type === "NamespaceValue";
    const found = isMember ? (part.value as ReadonlyMap<string, JinjaValue>).get(name) : undefined;
    if (isList(part) && /^\d+$/.test(name)) return part.value[Number(name)] ?? new UndefinedValue(undefined);
    return found ?? new UndefinedValue(undefined);
  }, value);
}

/** Python's `str()`, and the empty text for an undefined value, as Jinja writes values. */
export function textOf(value: JinjaValue): string {
  return isText(value) ? value.value : isUndefined(value) ? "" : literalOf(value);
}

/** Python's `repr()`. Throws for functions. */
function literalOf(value: JinjaValue): string {
  if (isText(value)) return textLiteral(value.value);
  if (value.type === "TupleValue" && isList(value)) {
    return `(${value.value.map(literalOf).join(", ")}${value.value.length === 1 ? "," : ""})`;
  }
  if (isList(value)) return `[${value.value.map(literalOf).join(", ")}]`;
  if (isMapping(value)) {
    return `{${[...value.value].map(([key, item]) => `${textLiteral(key)}: ${literalOf(item)}`).join(", ")}}`;
  }
  switch (value.type) {
    case "NullValue":
      return "None";
    case "UndefinedValue":
      return "Undefined";
    case "BooleanValue":
      return value.value === true ? "True" : "False";
    case "IntegerValue":
    case "FloatValue":
      return value.toString();
    default:
      throw new TypeError(`a value of type ${typeName(value)} has no text`);
  }
}

const pythonTypes: Readonly<Record<string, string>> = {
  StringValue: "str",
  IntegerValue: "int",
  FloatValue: "float",
  BooleanValue: "bool",
  ArrayValue: "list",
  TupleValue: "tuple",
  ObjectValue: "dict",
  NullValue: "NoneType",
  FunctionValue: "function",
  NamespaceValue: "Namespace",
};

export function typeName({ type }: JinjaValue): string {
  return pythonTypes[type] ?? type;
}

/** In double quotes if the text has single ones only, else in single quotes; without characters that Python does not print. */
function textLiteral(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replaceAll(/[\\'"]|\p{C}|(?! )\p{Z}/gu, (character) => {
    if (character === quote || character === "\\") return `\\${character}`;
    if (character === "'" || character === '"') return character;
    return shortEscapes[character] ?? escapeOf(character.codePointAt(0) ?? 0);
  });
  return `${quote}${escaped}${quote}`;
}

const shortEscapes: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escapeOf(code: number): string {
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

/** Characters that are white space in Python but not in JavaScript. */
const moreSpaces: ReadonlySet<string> = new Set(["\x1c", "\x1d", "\x1e", "\x1f", "\x85"]);

function isSpace(character: string): boolean {
  return moreSpaces.has(character) || (character !== "\ufeff" && character.trim() === "");
}

/** Python's `str.strip`: without the characters of `characters`, by default white space, at the ends of a text. */
export function stripped(text: string, characters: string | null, ends: "both" | "left" | "right"): string {
  const set = characters === null ? null : new Set(characters);
  const isDropped = (character: string): boolean => (set === null ? isSpace(character) : set.has(character));
  let from = 0;
  let to = text.length;
  while (ends !== "right" && from < to) {
    const character = String.fromCodePoint(text.codePointAt(from) ?? 0);
    if (!isDropped(character)) break;
    from += character.length;
  }
  while (ends !== "left" && to > from) {
    const length = to - 2 >= from && (text.codePointAt(to - 2) ?? 0) > 0xffff ? 2 : 1;
    if (!isDropped(text.slice(to - length, to))) break;
    to -= length;
  }
  return text.slice(from, to);
}
