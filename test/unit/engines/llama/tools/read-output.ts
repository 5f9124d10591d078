import type { OutputEnd, OutputPart, OutputReader } from "../../../../../src/engines/llama/chat/output-reader.js";

export interface ReadCall {
  readonly id: string;
  readonly name: string;
  readonly args: string;
}

/** A whole answer, as a client assembles it. */
export interface ReadOutput {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly ReadCall[];
  readonly reason: OutputEnd["reason"];
  readonly fault: string | null;
}

/** A generator of ids in order: call_1, call_2 … */
export function countedIds(): () => string {
  let last = 0;
  return () => `call_${++last}`;
}

/** Pushes the pieces until the reader is done, like a generation, and assembles the parts. */
export function readOutput(reader: OutputReader, pieces: readonly string[], cut = false): ReadOutput {
  const parts: OutputPart[] = [];
  for (const piece of pieces) {
    if (reader.done) break;
    parts.push(...reader.push(piece));
  }
  const { parts: last, reason, fault } = reader.end(cut);
  return { ...assembled([...parts, ...last]), reason, fault };
}

function assembled(parts: readonly OutputPart[]): Pick<ReadOutput, "text" | "reasoning" | "calls"> {
  const out = { text: "", reasoning: "", calls: [] as { id: string; name: string; args: string }[] };
  for (const part of parts) {
    if (part.type === "tool") addToCall(out.calls, part);
    else out[part.type] += part.text;
  }
  return out;
}

function addToCall(
  calls: { id: string; name: string; args: string }[],
  part: Extract<OutputPart, { type: "tool" }>,
): void {
  if (part.id !== undefined) {
    if (part.index !== calls.length) throw new Error(`call ${part.index} begins as number ${calls.length}`);
    calls.push({ id: part.id, name: part.name ?? "", args: "" });
  }
  const call = calls[part.index];
  if (call === undefined || part.index !== calls.length - 1)
    throw new Error(`a part of call ${part.index} is out of order`);
  if (part.argsDelta === "") throw new Error("an empty part");
  call.args += part.argsDelta ?? "";
}
