import { isJsonSpace, type JsonExpects, JsonScanner } from "./json-scanner.js";
import { MarkedText, type OutputEnd, type OutputPart, type OutputReader, textParts } from "./output-reader.js";
import { type CallableTools, callsMax, hermesClosing, hermesOpening } from "./tool-calls.js";

export interface HermesOptions {
  readonly tools: CallableTools;
  readonly nextCallId: () => string;
  /** Whether one answer may hold several calls, 16 at most. */
  readonly parallel: boolean;
  /**
   * Whether the answer is nothing but calls, as the grammar demands. A call that repeats an earlier one then ends the
   * answer and is left out: weak models go on with the same call up to the limit.
   */
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
  /** JSON of the calls that were made. */
  readonly #madeJson: string[] = [];
  /** Parts of a call that so far equals an earlier one. */
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
    this.#held.push(...read);
    if (this.#repeats(call)) {
      if (call.state === "made") this.#done = true;
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
      case "made":
        this.#call = null;
        this.#madeJson.push(call.raw.trim());
        this.#finishCall(call.fault());
        break;
      case "broken":
        this.#call = null;
        this.#finishCall("the arguments of a tool call are no JSON object");
        break;
    }
    return text.slice(end);
  }

  /** Whether what was read of a call is the beginning, or all, of an earlier one. */
  #repeats(call: CallReader): boolean {
    if (!this.#options.forced || (call.state !== "reading" && call.state !== "made")) return false;
    const json = call.raw.trim();
    return this.#madeJson.some((made) => (call.state === "made" ? made === json : made.startsWith(json)));
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
    const parts = [...this.#held.splice(0), ...(cut ? call.cut() : [])];
    const isText = !call.announced && !this.#options.forced;
    return isText ? textParts("text", this.#opening + call.raw) : parts;
  }
}

/**
 * `reading`: more text is needed. `made`: the call is complete. `text`: it is none, and `raw` is what was read.
 * `broken`: a call was announced, and what followed is no JSON.
 */
export type CallState = "reading" | "made" | "text" | "broken";

/** A member's name or value that is being read. */
interface Item {
  readonly of: "name" | "arguments" | "key" | "other";
  text: string;
}

/**
 * Reads `{"name": …, "arguments": {…}}`. A call is announced when its name is known and its arguments begin as an object;
 * from there on they are passed on as they come. The JSON decides where they end, whatever their texts say.
 */
export class CallReader {
  readonly #index: number;
  readonly #tools: CallableTools;
  readonly #nextCallId: () => string;
  readonly #scanner = new JsonScanner();
  #state: CallState = "reading";
  #raw = "";
  #key = "";
  #item: Item | null = null;
  #name: string | null = null;
  #args: Item | null = null;
  /** It is JSON, but no call of ours, which shows as text when it is complete. */
  #isNone = false;
  #announced = false;
  /** Characters of the arguments that were passed on. */
  #given = 0;
  #parts: OutputPart[] = [];

  constructor(index: number, tools: CallableTools, nextCallId: () => string) {
    this.#index = index;
    this.#tools = tools;
    this.#nextCallId = nextCallId;
  }

  get state(): CallState {
    return this.#state;
  }

  get raw(): string {
    return this.#raw;
  }

  get announced(): boolean {
    return this.#announced;
  }

  /** Reads from `text` at `from`; `end` is where it stopped: at the end, or before what cannot be part of a call. */
  push(text: string, from: number): { readonly parts: readonly OutputPart[]; readonly end: number } {
    let end = from;
    while (end < text.length && this.#state === "reading" && this.#take(text.charAt(end))) end++;
    return { parts: this.#takeParts(), end };
  }

  /** The budget ended the text. A call whose name is known is a call, though without all of its arguments (TOOL-15). */
  cut(): readonly OutputPart[] {
    if (!this.#isNone) this.#announce();
    return this.#takeParts();
  }

  /** What is wrong with the arguments of a call that was made; null: nothing. */
  fault(): string | null {
    return this.#tools.check(this.#name ?? "", JSON.parse(this.#args?.text ?? "{}"));
  }

  /** False: the character is no part of the call. */
  #take(character: string): boolean {
    const { depth, expects } = this.#scanner;
    const isJson = (depth > 0 || character === "{" || isJsonSpace(character)) && this.#scanner.feed(character);
    if (!isJson) {
      this.#state = this.#announced ? "broken" : "text";
      return false;
    }
    this.#raw += character;
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
    if (character !== "{" || this.#args !== null) this.#isNone = true;
    else this.#args = item;
    if (!this.#isNone) this.#announce();
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
    if (typeof name !== "string" || !this.#tools.has(name) || this.#name !== null) this.#isNone = true;
    else this.#name = name;
    if (!this.#isNone && this.#args !== null) this.#announce();
  }

  #complete(): void {
    this.#isNone ||= this.#name === null;
    if (this.#isNone) {
      this.#state = this.#announced ? "broken" : "text";
      return;
    }
    this.#args ??= { of: "arguments", text: "{}" };
    this.#announce();
    this.#state = "made";
  }

  #announce(): void {
    if (this.#announced || this.#name === null) return;
    this.#announced = true;
    this.#parts.push({ type: "tool", index: this.#index, id: this.#nextCallId(), name: this.#name });
  }

  #takeParts(): readonly OutputPart[] {
    const args = this.#announced ? (this.#args?.text ?? "") : "";
    if (args.length > this.#given) {
      this.#parts.push({ type: "tool", index: this.#index, argsDelta: args.slice(this.#given) });
    }
    this.#given = Math.max(this.#given, args.length);
    return this.#parts.splice(0);
  }
}
