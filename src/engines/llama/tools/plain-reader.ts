import { type OutputEnd, type OutputPart, type OutputReader, textParts } from "./output-reader.js";

/** Everything is text. */
export class PlainReader implements OutputReader {
  readonly done = false;

  push(text: string): readonly OutputPart[] {
    return textParts("text", text);
  }

  end(cut: boolean): OutputEnd {
    return { parts: [], reason: cut ? "length" : "stop", fault: null };
  }
}
