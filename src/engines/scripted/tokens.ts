/**
 * Tokens of the scripted engine: one run of non-space characters with the spaces before it; a space at the end of the
 * text belongs to the last token. A text of nothing but spaces is one token, so that no character is ever lost.
 */

/** Every character that `\s` matches. A loop and not an expression: `\s*\S+` takes quadratic time on spaces. */
function isSpace(code: number): boolean {
  if (code < 0x80) return code === 0x20 || (code >= 0x09 && code <= 0x0d);
  return (
    code === 0xa0 ||
    code === 0x1680 ||
    (code >= 0x2000 && code <= 0x200a) ||
    code === 0x2028 ||
    code === 0x2029 ||
    code === 0x202f ||
    code === 0x205f ||
    code === 0x3000 ||
    code === 0xfeff
  );
}

/** Calls `found` with the end of every run of non-space characters, in UTF-16 code units. */
function eachRunEnd(text: string, found: (end: number) => void): void {
  let inRun = false;
  for (let i = 0; i < text.length; i++) {
    const space = isSpace(text.charCodeAt(i));
    if (inRun && space) found(i);
    inRun = !space;
  }
  if (inRun) found(text.length);
}

/** Number of tokens; 0 for the empty text only. */
export function countTokens(text: string): number {
  let count = 0;
  eachRunEnd(text, () => {
    count++;
  });
  return count === 0 && text.length > 0 ? 1 : count;
}

/** The tokens of a text; joined they are the text. */
export function splitTokens(text: string): readonly string[] {
  const tokens: string[] = [];
  let start = 0;
  eachRunEnd(text, (end) => {
    tokens.push(text.slice(start, end));
    start = end;
  });
  if (start === text.length) return tokens;
  const rest = text.slice(start);
  return tokens.length === 0 ? [rest] : [...tokens.slice(0, -1), `${tokens.at(-1)}${rest}`];
}

export function beginsWithSpace(text: string): boolean {
  return text.length > 0 && isSpace(text.charCodeAt(0));
}
