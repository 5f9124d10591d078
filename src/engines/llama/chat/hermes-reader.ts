import { isJsonSpace, type JsonExpects, JsonScanner } from "./json-scanner.js";
import { MarkedText, type OutputEnd, type OutputPart, type OutputReader, textParts } from "./output-reader.js";
import { type CallableTools, callsMax, hermesClosing, hermesOpening } from "./tool-calls.js";

export interface HermesOptions {
  readonly tools: CallableTools;
  readonly nextCallId: () => string;
  /** Whether one answer may have several calls, 16 at most. */
  readonly parallel: boolean;
  /**
   * Whether the grammar allows calls only. A call that repeats an earlier one then ends the answer and is left out: weak
   * models repeat the same call up to the limit.
   */
  readonly forced: boolean;
}

/**
 * Reads text with calls in it. Text between the markers that is not a call of an offered tool stays text; white space
 * next to calls belongs to their markers.
 */
export class HermesReader implements OutputReader {
  readonly #options: HermesOptions;
  readonly #text = new MarkedText(hermesOpening);
  #call: CallReader | null = null;
  /** The opening marker of the current call with the white space before it. */
  #opening = "";
  /** Text after a call that could begin the closing marker; null: none is expected. */
  #tail: string | null = null;
  /** Number of complete calls, valid or not. */
  #calls = 0;
  /** JSON of the valid calls. */
  readonly #callsJson: string[] = [];
  /** Parts of a call that equals an earlier one so far. */
  #held: OutputPart[] = [];
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
    if (!this.#done && this.#call?.announced) this.#fault ??= "a tool call ends before its arguments do";
    if (this.#options.forced && this.#calls === 0) this.#fault ??= "the answer has no tool call, but one is required";
    return { parts, reason: this.#calls > 0 ? "tool_calls" : "stop", fault: this.#fault };
  }

  /** Returns the rest of the text. */
  #pushSome(text: string, parts: OutputPart[]): string {
    if (this.#call !== null) return this.#pushCall(this.#call, text, parts);
    if (this.#tail !== null) return this.#pushTail(this.#tail + text);
    const { before, marker } = this.#text.push(text);
    parts.push(...textParts("text", before));
    if (marker === null) return "";
    this.#opening = marker.space + hermesOpening;
    this.#call = new CallReader(this.#calls, this.#options);
    return marker.after;
  }

  #pushCall(call: CallReader, text: string, parts: OutputPart[]): string {
    const { parts: read, end } = call.push(text);
    this.#held.push(...read);
    if (this.#repeats(call)) {
      if (call.state === "complete") this.#done = true;
      return text.slice(end);
    }
    parts.push(...this.#held.splice(0));
    switch (call.state) {
      case "reading":
        break;
      case "text":
        this.#call = null;
        parts.push(...textParts("text", this.#opening + call.raw));
        break;
      case "complete":
        this.#call = null;
        this.#callsJson.push(call.raw.trim());
        this.#finishCall(call.fault());
        break;
      case "broken":
        this.#call = null;
        this.#finishCall("the arguments of a tool call are not a JSON object");
        break;
    }
    return text.slice(end);
  }

  /** Whether the call, as far as it was read, repeats an earlier one. */
  #repeats(call: CallReader): boolean {
    if (!this.#options.forced || (call.state !== "reading" && call.state !== "complete")) return false;
    const json = call.raw.trim();
    return this.#callsJson.some((earlier) => (call.state === "complete" ? earlier === json : earlier.startsWith(json)));
  }

  #finishCall(fault: string | null): void {
    this.#calls++;
    this.#tail = "";
    this.#fault = fault;
    this.#done = fault !== null || !this.#options.parallel || this.#calls === callsMax;
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
    // The grammar allows only separators between calls, so the rest is no text of the answer.
    if (this.#options.forced) return [];
    return this.#calls > 0 && rest.trim() === "" ? [] : textParts("text", rest);
  }

  #flushCall(call: CallReader, cut: boolean): readonly OutputPart[] {
    const parts = [...this.#held.splice(0), ...(cut ? call.cut() : [])];
    const isText = !call.announced && !this.#options.forced;
    return isText ? textParts("text", this.#opening + call.raw) : parts;
  }
}

/**
 * `reading`: more text is needed. `complete`: the call is complete. `text`: it is not a call, and its text is `raw`.
 * `broken`: a call was announced, and invalid JSON followed.
 */
type CallState = "reading" | "complete" | "text" | "broken";

/** A name or value of a member that is being read. */
interface Item {
  readonly of: "name" | "arguments" | "key" | "other";
  text: string;
}

/**
 * Reads `{"name": …, "arguments": {…}}`. A call is announced when its name is known and its arguments begin as an object;
 * from then on they are streamed. Their end is the end of the JSON value, whatever its texts contain.
 */
class CallReader {
  readonly #index: number;
  readonly #options: HermesOptions;
  readonly #scanner = new JsonScanner();
  state: CallState = "reading";
  raw = "";
  #key = "";
  #item: Item | null = null;
  #name: string | null = null;
  #args: Item | null = null;
  /** The value is JSON but not a call of an offered tool: it becomes text once it is complete. */
  #isNoCall = false;
  announced = false;
  /** Characters of the arguments that were streamed. */
  #streamed = 0;
  #parts: OutputPart[] = [];

  constructor(index: number, options: HermesOptions) {
    this.#index = index;
    this.#options = options;
  }

  /** `end`: the index after the last character that was read. The next one, if any, cannot be part of a call. */
  push(text: string): { readonly parts: readonly OutputPart[]; readonly end: number } {
    let end = 0;
    while (end < text.length && this.state === "reading" && this.#take(text.charAt(end))) end++;
    return { parts: this.#takeParts(), end };
  }

  /** The token budget ended the text. A call with a known name counts, though its arguments are incomplete (TOOL-15). */
  cut(): readonly OutputPart[] {
    if (!this.#isNoCall) this.#announce();
    return this.#takeParts();
  }

  /** The fault of a complete call's arguments; null: none. */
  fault(): string | null {
    return this.#options.tools.check(this.#name ?? "", JSON.parse(this.#args?.text ?? "{}"));
  }

  /** False if the character does not belong to the call. */
  #take(character: string): boolean {
    const { depth, expects } = this.#scanner;
    const isJson = (depth > 0 || character === "{" || isJsonSpace(character)) && this.#scanner.feed(character);
    if (!isJson) {
      this.state = this.announced ? "broken" : "text";
      return false;
    }
    this.raw += character;
    if (depth === 1 && !isJsonSpace(character)) this.#startItem(expects, character);
    this.#readItem(character);
    if (this.#scanner.expects === "end") this.#complete();
    return true;
  }

  #startItem(expects: JsonExpects, character: string): void {
    if (expects === "key" && character === '"') this.#item = { of: "key", text: "" };
    if (expects !== "value") return;
    this.#item = { of: this.#key === "name" || this.#key === "arguments" ? this.#key : "other", text: "" };
    if (this.#item.of === "arguments") this.#startArguments(this.#item, character);
  }

  #startArguments(item: Item, character: string): void {
    if (character !== "{" || this.#args !== null) this.#isNoCall = true;
    else this.#args = item;
    if (!this.#isNoCall) this.#announce();
  }

  #readItem(character: string): void {
    if (this.#item === null) return;
    this.#item.text += character;
    if (this.#scanner.depth > 1 || this.#scanner.expects === "inside") return;
    if (this.#item.of === "key") this.#key = String(JSON.parse(this.#item.text));
    if (this.#item.of === "name") this.#setName(this.#item.text);
    this.#item = null;
  }

  #setName(json: string): void {
    const name: unknown = json.startsWith('"') ? JSON.parse(json) : null;
    if (typeof name !== "string" || !this.#options.tools.has(name) || this.#name !== null) this.#isNoCall = true;
    else this.#name = name;
    if (!this.#isNoCall && this.#args !== null) this.#announce();
  }

  #complete(): void {
    this.#isNoCall ||= this.#name === null;
    if (this.#isNoCall) {
      this.state = this.announced ? "broken" : "text";
      return;
    }
    this.#args ??= { of: "arguments", text: "{}" };
    this.#announce();
    this.state = "complete";
  }

  #announce(): void {
    if (this.announced || this.#name === null) return;
    this.announced = true;
    this.#parts.push({ type: "tool", index: this.#index, id: this.#options.nextCallId(), name: this.#name });
  }

  #takeParts(): readonly OutputPart[] {
    const args = this.announced ? (this.#args?.text ?? "") : "";
    if (args.length > this.#streamed) {
      this.#parts.push({ type: "tool", index: this.#index, argsDelta: args.slice(this.#streamed) });
    }
    this.#streamed = Math.max(this.#streamed, args.length);
    return this.#parts.splice(0);
  }
}
