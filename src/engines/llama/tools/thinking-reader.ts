import { MarkedText } from "./marked-text.js";
import { type OutputEnd, type OutputPart, type OutputReader, textParts } from "./output-reader.js";

export const thoughtsOpening = "<think>";
export const thoughtsClosing = "</think>";

/**
 * Takes the thoughts off the start of an answer (RESP-12); what follows is read by another reader. White space around the
 * thoughts belongs to their markers.
 */
export class ThinkingReader implements OutputReader {
  readonly #answer: OutputReader;
  readonly #thoughts = new MarkedText(thoughtsClosing);
  #state: "before" | "starting" | "thinking" | "after" | "answering";
  #held = "";

  /** `inThoughts`: the prompt opened them already. */
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
