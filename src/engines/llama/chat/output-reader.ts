/** A part of an answer, of whole code points. The parts of one call are consecutive; the first has `id` and `name`. */
export type OutputPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  | {
      readonly type: "tool";
      readonly index: number;
      readonly id?: string;
      readonly name?: string;
      readonly argsDelta?: string;
    };

export interface OutputEnd {
  /** Parts that were held back until the end of the text. */
  readonly parts: readonly OutputPart[];
  readonly reason: "stop" | "length" | "tool_calls";
  /** How the answer violates its form or schema; null: it does not, or it was cut and cannot be checked. */
  readonly fault: string | null;
}

/** Reads the generated text of one choice piece by piece. The joined parts do not depend on how the text is split. */
export interface OutputReader {
  /** Whether the answer is complete: generation may end, and `end` returns the reason. */
  readonly done: boolean;
  push(text: string): readonly OutputPart[];
  /** `cut`: the token budget ended the text, not the model. */
  end(cut: boolean): OutputEnd;
}

/** A list of one part; empty for an empty text. */
export function textParts(type: "text" | "reasoning", text: string): readonly OutputPart[] {
  return text === "" ? [] : [{ type, text }];
}

/** Reads the whole answer as text. */
export class PlainReader implements OutputReader {
  readonly done = false;

  push(text: string): readonly OutputPart[] {
    return textParts("text", text);
  }

  end(cut: boolean): OutputEnd {
    return { parts: [], reason: cut ? "length" : "stop", fault: null };
  }
}

/** Reads the text of one JSON value and checks it once it is complete. */
export class StructuredReader implements OutputReader {
  readonly done = false;
  readonly #check: (value: unknown) => string | null;
  #text = "";

  /** `check` returns the fault of a value, or null. */
  constructor(check: (value: unknown) => string | null) {
    this.#check = check;
  }

  push(text: string): readonly OutputPart[] {
    this.#text += text;
    return textParts("text", text);
  }

  end(cut: boolean): OutputEnd {
    if (cut) return { parts: [], reason: "length", fault: null };
    let value: unknown;
    try {
      value = JSON.parse(this.#text);
    } catch (thrown) {
      const why = thrown instanceof Error ? thrown.message : "unknown";
      return { parts: [], reason: "stop", fault: `the answer is not JSON: ${why}` };
    }
    return { parts: [], reason: "stop", fault: this.#check(value) };
  }
}

/** Chooses one of two readers by the first character that is not white space. */
export class EitherReader implements OutputReader {
  readonly #mark: string;
  readonly #marked: OutputReader;
  readonly #other: OutputReader;
  #chosen: OutputReader | null = null;

  /** `mark`: first character of answers for the reader `marked`. */
  constructor(mark: string, marked: OutputReader, other: OutputReader) {
    this.#mark = mark;
    this.#marked = marked;
    this.#other = other;
  }

  get done(): boolean {
    return this.#chosen?.done ?? false;
  }

  push(text: string): readonly OutputPart[] {
    if (this.#chosen !== null) return this.#chosen.push(text);
    const start = text.trimStart();
    if (start === "") return [];
    this.#chosen = start.startsWith(this.#mark) ? this.#marked : this.#other;
    return this.#chosen.push(start);
  }

  end(cut: boolean): OutputEnd {
    return (this.#chosen ?? this.#other).end(cut);
  }
}

export const thoughtsOpening = "<think>";
export const thoughtsClosing = "</think>";

/**
 * Separates the thoughts at the start of an answer (RESP-12) and passes the rest to another reader. White space around
 * the thoughts belongs to their markers.
 */
export class ThinkingReader implements OutputReader {
  readonly #answer: OutputReader;
  readonly #thoughts = new MarkedText(thoughtsClosing);
  #state: "before" | "starting" | "thinking" | "after" | "answering";
  #held = "";

  /** `inThoughts`: the prompt has opened the thoughts. */
  constructor(answer: OutputReader, inThoughts: boolean) {
    this.#answer = answer;
    this.#state = inThoughts ? "starting" : "before";
  }

  get done(): boolean {
    return this.#answer.done;
  }

  push(text: string): readonly OutputPart[] {
    switch (this.#state) {
      case "before":
        return this.#pushBefore(this.#held + text);
      case "starting":
        return this.#pushStarting(text);
      case "thinking":
        return this.#pushThoughts(text);
      case "after":
        return this.#pushAfter(text);
      case "answering":
        return this.#answer.push(text);
    }
  }

  end(cut: boolean): OutputEnd {
    const thoughts = textParts("reasoning", this.#state === "thinking" ? this.#thoughts.flush() : "");
    const held = this.#state === "before" ? this.#answer.push(this.#held) : [];
    const end = this.#answer.end(cut);
    return { ...end, parts: [...thoughts, ...held, ...end.parts] };
  }

  #pushBefore(text: string): readonly OutputPart[] {
    const start = text.trimStart();
    const isNear = text.length - start.length <= MarkedText.spaceMax;
    if (isNear && start.startsWith(thoughtsOpening)) {
      this.#state = "starting";
      this.#held = "";
      return this.push(start.slice(thoughtsOpening.length));
    }
    if (isNear && thoughtsOpening.startsWith(start)) {
      this.#held = text;
      return [];
    }
    this.#state = "answering";
    this.#held = "";
    return this.#answer.push(text);
  }

  #pushStarting(text: string): readonly OutputPart[] {
    const start = text.trimStart();
    if (start === "") return [];
    this.#state = "thinking";
    return this.#pushThoughts(start);
  }

  #pushThoughts(text: string): readonly OutputPart[] {
    const { before, marker } = this.#thoughts.push(text);
    const thoughts = textParts("reasoning", before);
    if (marker === null) return thoughts;
    this.#state = "after";
    return [...thoughts, ...this.#pushAfter(marker.after)];
  }

  #pushAfter(text: string): readonly OutputPart[] {
    const start = text.trimStart();
    if (start === "") return [];
    this.#state = "answering";
    return this.#answer.push(start);
  }
}

interface UpToMarker {
  readonly before: string;
  /** The white space before the marker, and the text after it; null: the marker has not been read. */
  readonly marker: { readonly space: string; readonly after: string } | null;
}

/**
 * Finds a marker in text. A possible beginning of the marker is held back, with the white space before it, which belongs
 * to the marker.
 */
export class MarkedText {
  /** Maximum white space that belongs to a marker, in characters. */
  static readonly spaceMax = 256;
  readonly #marker: string;
  #held = "";

  constructor(marker: string) {
    this.#marker = marker;
  }

  push(text: string): UpToMarker {
    const open = this.#held + text;
    const at = open.indexOf(this.#marker);
    const certain = at === -1 ? open.length - this.#openingLength(open) : at;
    const before = open.slice(0, certain - spaceLengthBefore(open, certain));
    this.#held = at === -1 ? open.slice(before.length) : "";
    if (at === -1) return { before, marker: null };
    return { before, marker: { space: open.slice(before.length, at), after: open.slice(at + this.#marker.length) } };
  }

  /** The text that is still held back; there is no marker in it. */
  flush(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }

  /** Length of the longest suffix of the text that is a prefix of the marker. */
  #openingLength(text: string): number {
    let length = Math.min(this.#marker.length - 1, text.length);
    while (!this.#marker.startsWith(text.slice(text.length - length))) length--;
    return length;
  }
}

function spaceLengthBefore(text: string, end: number): number {
  const tail = text.slice(Math.max(0, end - MarkedText.spaceMax), end);
  return tail.length - tail.trimEnd().length;
}
