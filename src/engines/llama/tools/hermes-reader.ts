import { CallReader } from "./call-reader.js";
import type { CallableTools } from "./callable-tools.js";
import { callsMax, hermesClosing, hermesOpening } from "./hermes-format.js";
import { MarkedText } from "./marked-text.js";
import { type OutputEnd, type OutputPart, type OutputReader, textParts } from "./output-reader.js";

export interface HermesOptions {
  readonly tools: CallableTools;
  readonly nextCallId: () => string;
  /** Whether one answer may hold several calls, 16 at most. */
  readonly parallel: boolean;
  /** Whether the answer is nothing but calls, which a grammar sees to. */
  readonly forced: boolean;
}

/**
 * Text with calls in it. What stands between the markers and is no call of ours comes out as the text that it is; white
 * space beside calls belongs to their markers.
 */
export class HermesReader implements OutputReader {
  readonly #options: HermesOptions;
  readonly #text = new MarkedText(hermesOpening);
  #call: CallReader | null = null;
  /** The marker of that call, as it was written. */
  #opening = "";
  /** What came after a call, while it could be the closing marker; null: none is expected. */
  #tail: string | null = null;
  #made = 0;
  #fault: string | null = null;
  #done = false;

  constructor(options: HermesOptions) {
    this.#options = options;
  }

  get done(): boolean {
    return this.#done;
  }

  push(text: string): readonly OutputPart[] {
    const parts: OutputPart[] = [];
    for (let rest = text; rest !== "" && !this.#done; ) rest = this.#pushSome(rest, parts);
    return parts;
  }

  end(cut: boolean): OutputEnd {
    const parts = this.#done ? [] : this.#flush(cut);
    if (cut && !this.#done) return { parts, reason: "length", fault: null };
    if (this.#call?.announced) this.#fault ??= "a tool call ends before its arguments do";
    if (this.#options.forced && this.#made === 0) this.#fault ??= "the answer holds no tool call, but one is required";
    return { parts, reason: this.#made > 0 ? "tool_calls" : "stop", fault: this.#fault };
  }

  /** Returns what is left of the text. */
  #pushSome(text: string, parts: OutputPart[]): string {
    if (this.#call !== null) return this.#pushCall(this.#call, text, parts);
    if (this.#tail !== null) return this.#pushTail(this.#tail + text);
    const { before, marker } = this.#text.push(text);
    parts.push(...textParts("text", before));
    if (marker === null) return "";
    this.#opening = marker.space + hermesOpening;
    this.#call = new CallReader(this.#made, this.#options.tools, this.#options.nextCallId);
    return marker.after;
  }

  #pushCall(call: CallReader, text: string, parts: OutputPart[]): string {
    const { parts: read, end } = call.push(text, 0);
    parts.push(...read);
    switch (call.state) {
      case "reading":
        break;
      case "text":
        this.#call = null;
        parts.push(...textParts("text", this.#opening + call.raw));
        break;
      case "made":
        this.#call = null;
        this.#finishCall(call.fault());
        break;
      case "broken":
        this.#call = null;
        this.#finishCall("the arguments of a tool call are no JSON object");
        break;
    }
    return text.slice(end);
  }

  #finishCall(fault: string | null): void {
    this.#made++;
    this.#tail = "";
    this.#fault = fault;
    this.#done = fault !== null || !this.#options.parallel || this.#made === callsMax;
  }

  #pushTail(text: string): string {
    const start = text.trimStart();
    const isNear = text.length - start.length <= MarkedText.spaceMax;
    if (isNear && !start.startsWith(hermesClosing) && hermesClosing.startsWith(start)) {
      this.#tail = text;
      return "";
    }
    this.#tail = null;
    return isNear && start.startsWith(hermesClosing) ? start.slice(hermesClosing.length) : text;
  }

  #flush(cut: boolean): readonly OutputPart[] {
    if (this.#call !== null) return this.#flushCall(this.#call, cut);
    const rest = (this.#tail ?? "") + this.#text.flush();
    // All that a grammar lets stand beside calls is a part of their form.
    if (this.#options.forced) return [];
    return this.#made > 0 && rest.trim() === "" ? [] : textParts("text", rest);
  }

  #flushCall(call: CallReader, cut: boolean): readonly OutputPart[] {
    const parts = cut ? call.cut() : [];
    const isText = !call.announced && !this.#options.forced;
    return isText ? textParts("text", this.#opening + call.raw) : parts;
  }
}
