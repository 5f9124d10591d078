/**
 * Tokens of the scripted engine: one run of non-space characters with the spaces before it; a space at the end of the
 * text belongs to the last token. A text of nothing but spaces is one token, so that no character is ever lost.
 */

/** Every character that `\s` matches. A loop and not an expression: `\s*\S+` takes quadratic time on spaces. */
function isSpace(code: number): boolean {
  if (code > 0x20 && code < 0xa0) return false;
  if (code <= 0x20) return code === 0x20 || (code >= 0x09 && code <= 0x0d);
  return isSpaceBeyondLatin(code);
}

/** From U+00A0 on. */
function isSpaceBeyondLatin(code: number): boolean {
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

/** The end of the first run of non-space characters from `start` on, in UTF-16 code units; -1: only spaces are left. */
function nextRunEnd(text: string, start: number): number {
  let i = start;
  while (i < text.length && isSpace(text.charCodeAt(i))) i++;
  if (i === text.length) return -1;
  while (i < text.length && !isSpace(text.charCodeAt(i))) i++;
  return i;
}

/** By UTF-16 code unit: 0 for spaces, 1 for all else. */
const inkByCode = Uint8Array.from({ length: 0x10000 }, (_, code) => (isSpace(code) ? 0 : 1));

/** Where short texts are laid out to be counted. */
const bytes = Buffer.alloc(16_384);
/** In UTF-8, of one UTF-16 code unit. */
const bytesPerCodeMax = 3;

/** Number of tokens; 0 for the empty text only. */
export function countTokens(text: string): number {
  const isShort = text.length * bytesPerCodeMax <= bytes.length;
  // As many bytes as characters: ASCII. A byte is read at a third of the cost of a character of a string.
  const count = isShort && bytes.write(text) === text.length ? runsOfBytes(text.length) : runsOfText(text);
  return count === 0 && text.length > 0 ? 1 : count;
}

/** Runs of non-space characters. Without a branch per character: where words end cannot be foreseen. */
function runsOfText(text: string): number {
  let count = 0;
  let before = 0;
  for (let i = 0; i < text.length; i++) {
    const ink = inkByCode[text.charCodeAt(i)] ?? 0;
    count += ink & ~before;
    before = ink;
  }
  return count;
}

/** The same of the ASCII text that is laid out. */
function runsOfBytes(length: number): number {
  let count = 0;
  let before = 0;
  for (let i = 0; i < length; i++) {
    const ink = inkByCode[bytes[i] ?? 0] ?? 0;
    count += ink & ~before;
    before = ink;
  }
  return count;
}

/** The tokens of a text; joined they are the text. */
export function splitTokens(text: string): readonly string[] {
  const tokens: string[] = [];
  let start = 0;
  for (let end = nextRunEnd(text, 0); end >= 0; end = nextRunEnd(text, end)) {
    tokens.push(text.slice(start, end));
    start = end;
  }
  if (start === text.length) return tokens;
  const rest = text.slice(start);
  return tokens.length === 0 ? [rest] : [...tokens.slice(0, -1), `${tokens.at(-1)}${rest}`];
}

export function beginsWithSpace(text: string): boolean {
  return text.length > 0 && isSpace(text.charCodeAt(0));
}
