const escapes: Readonly<Record<string, string>> = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A GBNF literal that matches exactly this text. */
export function gbnfLiteral(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must be escaped.
  return `"${text.replaceAll(/["\\\u0000-\u001f\u007f]/g, escaped)}"`;
}

/** JSON on one line with a space after each colon and comma, the way most models have seen it. */
export function jsonText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonText).join(memberSeparator)}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([name, member]) => JSON.stringify(name) + nameSeparator + jsonText(member),
  );
  return `{${members.join(memberSeparator)}}`;
}

export const nameSeparator = ": ";
export const memberSeparator = ", ";

function escaped(character: string): string {
  return escapes[character] ?? `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
}
