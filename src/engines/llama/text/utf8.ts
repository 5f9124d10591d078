/** Where a text of bytes stands: between two code points, or inside of one, by what may follow. */
export type Utf8State =
  | "whole"
  | "one-left"
  | "two-left"
  | "three-left"
  | "after-e0"
  | "after-ed"
  | "after-f0"
  | "after-f4";

/** The states inside of a code point. */
type Utf8Inside = Exclude<Utf8State, "whole">;

/** The bytes that may follow, first and last, and where they lead. Some leads narrow what follows them (RFC 3629). */
const continuations: Readonly<Record<Utf8Inside, readonly [first: number, last: number, next: Utf8State]>> = {
  "one-left": [0x80, 0xbf, "whole"],
  "two-left": [0x80, 0xbf, "one-left"],
  "three-left": [0x80, 0xbf, "two-left"],
  "after-e0": [0xa0, 0xbf, "one-left"],
  "after-ed": [0x80, 0x9f, "one-left"],
  "after-f0": [0x90, 0xbf, "two-left"],
  "after-f4": [0x80, 0x8f, "two-left"],
};

export const utf8Insides = Object.keys(continuations) as readonly Utf8Inside[];

/** Where more bytes lead; null: with them, the text would not be well-formed, whatever came next. */
export function utf8After(from: Utf8State, bytes: readonly number[]): Utf8State | null {
  let state = from;
  for (const byte of bytes) {
    const next = state === "whole" ? afterLead(byte) : afterContinuation(state, byte);
    if (next === null) return null;
    state = next;
  }
  return state;
}

function afterContinuation(state: Utf8Inside, byte: number): Utf8State | null {
  const [first, last, next] = continuations[state];
  return byte >= first && byte <= last ? next : null;
}

function afterLead(byte: number): Utf8State | null {
  if (byte < 0x80) return "whole";
  if (byte < 0xc2 || byte > 0xf4) return null;
  if (byte < 0xe0) return "one-left";
  switch (byte) {
    case 0xe0:
      return "after-e0";
    case 0xed:
      return "after-ed";
    case 0xf0:
      return "after-f0";
    case 0xf4:
      return "after-f4";
    default:
      return byte < 0xf0 ? "two-left" : "three-left";
  }
}
