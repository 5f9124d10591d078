import type { Ajv2020 } from "ajv/dist/2020.js";

/** Whether two values of JSON are equal: objects in any order of their members, 0 and -0 as one number. */
export function jsonEqual(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => jsonEqual(item, b[i]));
  }
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && jsonEqual(memberOf(a, name), memberOf(b, name)))
  );
}

function memberOf(object: object, name: string): unknown {
  return (object as Readonly<Record<string, unknown>>)[name];
}

/**
 * Gives a validator our own comparison. Its own takes a member called `toString` or `valueOf` for the method and throws,
 * and what a member is called is up to whoever writes the schema.
 */
export function useJsonEquality(ajv: Ajv2020): Ajv2020 {
  for (const keyword of ["const", "enum", "uniqueItems"]) ajv.removeKeyword(keyword);
  ajv.addKeyword({ keyword: "const", validate: jsonEqual });
  ajv.addKeyword({
    keyword: "enum",
    schemaType: "array",
    validate: (allowed: readonly unknown[], value: unknown) => allowed.some((each) => jsonEqual(each, value)),
  });
  ajv.addKeyword({
    keyword: "uniqueItems",
    type: "array",
    schemaType: "boolean",
    validate: (wanted: boolean, items: readonly unknown[]) => !wanted || areUnique(items),
  });
  return ajv;
}

function areUnique(items: readonly unknown[]): boolean {
  const isPlain = items.every((item) => typeof item !== "object" || item === null);
  if (isPlain) return new Set(items).size === items.length;
  return items.every((item, i) => items.slice(0, i).every((before) => !jsonEqual(item, before)));
}
