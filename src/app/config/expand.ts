/**
 * `${VAR}` and `${VAR:-default}` in values of the configuration file; `$${` stands for a literal `${`. As in shells, the
 * default is also taken for a variable that is set but empty.
 *
 * Braces, commas and colons mean something in YAML, so references are hidden before the file is parsed (each character
 * becomes one of Unicode's private use area: columns stay right) and expanded afterwards, value by value: what a
 * variable holds can never become YAML.
 */
const reference = /\$?\$\{[^}\n]*\}/g;
const maskBase = 0xe000;
const masked = /[\ue000-\ue07f]+/g;
const form = /^\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}$/;

export type Variables = Readonly<Record<string, string | undefined>>;

/** The file with every reference hidden from the YAML parser. */
export function maskReferences(text: string): string {
  return text.replace(reference, (found) => shift(found, maskBase));
}

/** Text as the author wrote it, for keys and messages. */
export function unmaskReferences(text: string): string {
  return text.replace(masked, (found) => shift(found, -maskBase));
}

export function hasReference(text: string): boolean {
  return text.search(masked) >= 0;
}

type Expanded = { readonly text: string } | { readonly fault: string; readonly hint: string };

/** The text with every hidden reference replaced by its variable's value or default. */
export function expandReferences(text: string, variables: Variables): Expanded {
  let fault: { fault: string; hint: string } | null = null;
  const expanded = text.replace(masked, (found) =>
    unmaskReferences(found).replace(reference, (written) => {
      if (written.startsWith("$$")) return written.slice(1);
      const match = form.exec(written);
      const name = match?.[1];
      if (name === undefined) {
        fault ??= { fault: `${written} is not a reference to a variable`, hint: `write \${NAME} or \${NAME:-default}` };
        return "";
      }
      const otherwise = match?.[2];
      const value = otherwise === undefined ? variables[name] : variables[name] || otherwise;
      if (value === undefined) {
        fault ??= { fault: `the variable ${name} is not set`, hint: `set it, or write \${${name}:-default}` };
        return "";
      }
      return value;
    }),
  );
  return fault ?? { text: expanded };
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
