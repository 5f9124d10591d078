import type { DumpedKey } from "./redis-dump.js";

/**
 * Shapes of the stored values, by names of keys. `*` replaces numbers of shards and times in names, and ids of records in
 * fields, so that two dumps of the same records at different times are equal. A shape is the type of a key, a field, and the
 * form of its value: the fields of JSON, the types of MessagePack, a format number unchanged.
 */
export function shapesOf(dump: readonly DumpedKey[]): ReadonlyMap<string, readonly string[]> {
  const shapes = new Map<string, Set<string>>();
  for (const [name, type, content] of dump) {
    const general = name.replace(/\{s\d+\}/, "{s*}").replace(/\b\d{5,}\b|\b\d{4}-\d\d(-\d\d)?\b/g, "*");
    // These keys are reports of running processes.
    if (general.endsWith("}:replicas")) continue;
    const found = shapes.get(general) ?? new Set();
    shapes.set(general, found);
    if (typeof content === "string") found.add(`string ${formOf(content)}`);
    for (const entry of typeof content === "string" ? [] : content) {
      const [member, value] = typeof entry === "string" ? [entry, ""] : entry;
      found.add(type === "hash" ? `hash ${generalName(member)} = ${formOf(value)}` : `${type} ${generalName(member)}`);
    }
  }
  return new Map([...shapes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, found]) => [name, [...found].sort()]));
}

/** Replaces an id by its prefix, a position or digest by its length, and a JSON document by its fields. */
function generalName(member: string): string {
  const json = member.indexOf("{") === -1 ? member.indexOf("[") : member.indexOf("{");
  const before = (json === -1 ? member : member.slice(0, json))
    .replace(/\b(dlv|evt)_[0-9a-f]{32}\b/g, "$1_*")
    .replace(/\b[0-9a-f]{64}\b/g, "<sha256>")
    .replace(/\b\d{16}\b/g, "<position>");
  return json === -1 ? before : before + formOf(member.slice(json));
}

function formOf(value: string): string {
  if (/^\d+$/.test(value)) return value.length === 1 ? value : "<number>";
  const [, head = "", json] = /^([^{[]*)([{[].*)$/s.exec(value) ?? [];
  if (json !== undefined && /^[\x20-\x7e]*$/.test(head)) {
    const parsed = parsedJson(json);
    if (parsed !== undefined) return head.replace(/\d+/g, "<number>") + formOfJson(parsed);
  }
  const packed = formsOfMessages(Buffer.from(value, "latin1"));
  return packed ?? value.replace(/\d+/g, "<number>");
}

function parsedJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function formOfJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(formOfJson).join()}]`;
  if (typeof value !== "object" || value === null) return value === null ? "null" : typeof value;
  const fields = Object.entries(value).map(([name, inner]) => `${name}:${name === "v" ? inner : formOfJson(inner)}`);
  return `{${fields.join()}}`;
}

/** Types of the MessagePack values that fill the bytes, or null: `s` text, `i` integer, lists in brackets. */
function formsOfMessages(bytes: Buffer): string | null {
  const forms: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const read = formOfMessage(bytes, at);
    // A text or number alone is no record, because this driver's records are lists.
    if (read === null || !read.form.startsWith("[")) return null;
    forms.push(read.form);
    at = read.end;
  }
  return forms.length === 0 ? null : forms.join("");
}

function formOfMessage(bytes: Buffer, at: number): { form: string; end: number } | null {
  const code = bytes[at] ?? 0xc1;
  const sizeOf = (width: number) => (at + 1 + width <= bytes.length ? bytes.readUIntBE(at + 1, width) : Number.NaN);
  const text = (width: number, length: number) => ended("s", at + 1 + width + length);
  const ended = (form: string, end: number) => (end <= bytes.length ? { form, end } : null);
  if (code <= 0x7f) return ended("i", at + 1);
  if (code >= 0xa0 && code <= 0xbf) return text(0, code & 0x1f);
  if (code >= 0xd9 && code <= 0xdb) return text(2 ** (code - 0xd9), sizeOf(2 ** (code - 0xd9)));
  if (code >= 0xcc && code <= 0xcf) return ended("i", at + 1 + 2 ** (code - 0xcc));
  if (code === 0xcb) return ended("d", at + 9);
  const isShort = code >= 0x90 && code <= 0x9f;
  if (!isShort && code !== 0xdc) return null;
  const count = isShort ? code & 0x0f : sizeOf(2);
  const forms: string[] = [];
  let end = at + (isShort ? 1 : 3);
  for (let i = 0; i < count; i += 1) {
    const inner = formOfMessage(bytes, end);
    if (inner === null) return null;
    forms.push(inner.form);
    end = inner.end;
  }
  return { form: `[${forms.join()}]`, end };
}
