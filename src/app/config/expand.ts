/**
 * `${VAR}` and `${VAR:-default}` in values of the configuration file; `$${` is a literal `${`. As in shells, the default
 * also replaces an empty variable.
 *
 * Braces, commas and colons are YAML syntax, so references are masked before the file is parsed (each character becomes
 * one of Unicode's private use area, which keeps columns right) and expanded afterwards, value by value: the content of a
 * variable never becomes YAML.
 */
const reference = /\$?\$\{[^}\n]*\}/g;
const maskBase = 0xe000;
const masked = /[\ue000-\ue07f]+/g;
const form = /^\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}$/;

export type Variables = Readonly<Record<string, string | undefined>>;

/** The file with every reference masked. */
export function maskReferences(text: string): string {
  return text.replace(reference, (found) => shift(found, maskBase));
}

/** The original text, for keys and messages. */
export function unmaskReferences(text: string): string {
  return text.replace(masked, (found) => shift(found, -maskBase));
}

export function hasReference(text: string): boolean {
  return text.search(masked) >= 0;
}

type Expanded = { readonly text: string } | { readonly message: string; readonly hint: string };

/** Replaces every masked reference by its variable's value or default. */
export function expandReferences(text: string, variables: Variables): Expanded {
  let problem: { message: string; hint: string } | null = null;
  const expanded = text.replace(masked, (found) =>
    unmaskReferences(found).replace(reference, (written) => {
      if (written.startsWith("$$")) return written.slice(1);
      const match = form.exec(written);
      const name = match?.[1];
      if (name === undefined) {
        problem ??= {
          message: `${written} is not a reference to a variable`,
          hint: `write \${NAME} or \${NAME:-default}`,
        };
        return "";
      }
      const otherwise = match?.[2];
      const value = otherwise === undefined ? variables[name] : variables[name] || otherwise;
      if (value === undefined) {
        problem ??= { message: `the variable ${name} is not set`, hint: `set it, or write \${${name}:-default}` };
        return "";
      }
      return value;
    }),
  );
  return problem ?? { text: expanded };
}

function shift(text: string, by: number): string {
  let shifted = "";
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    shifted +=
      code < 0x80 || (code >= maskBase && code < maskBase + 0x80) ? String.fromCodePoint(code + by) : character;
  }
  return shifted;
}
