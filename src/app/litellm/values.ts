import { isObject } from "../../lib/json-string.js";
export type Group = Readonly<Record<string, unknown>>;

/** The value as a group; an empty one if it is not a group. */
export function groupOf(value: unknown): Group {
  return isObject(value) ? value : {};
}

/** The groups of a list; none if it is no list. */
export function groupsOf(value: unknown): readonly Group[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Text that is not empty, else null. */
export function textOf(value: unknown): string | null {
  return typeof value === "string" && value.trim() !== "" ? value.trim() : null;
}

/** A finite number, also one that is written as text, else null. */
export function numberOf(value: unknown): number | null {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : null;
}

const referenceForm = /^os\.environ\/([A-Za-z_][A-Za-z0-9_]*)$/;

/** The variable that a value of LiteLLM names: `os.environ/NAME`. */
export function variableOf(text: string): string | null {
  return referenceForm.exec(text)?.[1] ?? null;
}

/** Escapes a literal text for our configuration, which would expand `${NAME}`. */
export function toLiteral(text: string): string {
  return text.replaceAll("${", () => "$${");
}

/** A text of LiteLLM as our configuration writes it: references as `${NAME}`, everything else literally. */
export function toSettingText(text: string): string {
  const variable = variableOf(text);
  return variable === null ? toLiteral(text) : `\${${variable}}`;
}
