import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PlainReader, ThinkingReader } from "../../../../../src/engines/llama/chat/output-reader.js";
import { rounds } from "../../../../support/tier.js";
import { type ReadOutput, readOutput } from "./read-output.js";

/** Reads the text in one piece and by characters, and expects equal results. */
function read(text: string, options: { inThoughts?: boolean; cut?: boolean } = {}): ReadOutput {
  const newReader = () => new ThinkingReader(new PlainReader(), options.inThoughts ?? false);
  const whole = readOutput(newReader(), [text], options.cut);
  expect(readOutput(newReader(), [...text], options.cut)).toEqual(whole);
  return whole;
}

describe("ThinkingReader", () => {
  it("separates the thoughts at the start of an answer, without the white space around them (RESP-12)", () => {
    const answer = read("\n<think>\nFirst </thin, then\n</think>\n\nIt is <think>7</think>.\n");
    expect(answer).toMatchObject({
      reasoning: "First </thin, then",
      text: "It is <think>7</think>.\n",
      reason: "stop",
    });
  });

  it("reads thoughts that the prompt opened (RESP-12)", () => {
    expect(read("Hm.\n</think>\nYes.", { inThoughts: true })).toMatchObject({ reasoning: "Hm.", text: "Yes." });
    expect(read("</think>Yes.", { inThoughts: true })).toMatchObject({ reasoning: "", text: "Yes." });
  });

  it("leaves an answer without reasoning unchanged", () => {
    for (const text of [
      "",
      " Yes.",
      "\n\n",
      "<thin",
      "<thinking>",
      "Well, <think>no</think>",
      `${" ".repeat(257)}<think>`,
    ]) {
      expect(read(text)).toMatchObject({ reasoning: "", text });
    }
  });

  it("returns thoughts that are cut or never end as thoughts", () => {
    expect(read("<think>Hm, </thi", { cut: true })).toMatchObject({
      reasoning: "Hm, </thi",
      text: "",
      reason: "length",
    });
    expect(read("<think>Hm")).toMatchObject({ reasoning: "Hm", text: "", reason: "stop" });
  });

  it("streams thoughts", () => {
    const reader = new ThinkingReader(new PlainReader(), false);
    expect(reader.push("<think>Let me")).toEqual([{ type: "reasoning", text: "Let me" }]);
    expect(reader.push(" see")).toEqual([{ type: "reasoning", text: " see" }]);
  });

  it("reads every mixture independently of how it is split, and drops only markers and white space", () => {
    const unit = fc.constantFrom("<think>", "</think>", "a", "é😀", " ", "\n", "<", "think>", " ".repeat(300));
    fc.assert(
      fc.property(fc.array(unit, { maxLength: 10 }), fc.boolean(), fc.boolean(), (units, inThoughts, cut) => {
        const whole = read(units.join(""), { inThoughts, cut });
        const letters = (text: string) => text.replaceAll(/[^aé😀]/gu, "");
        expect(letters(whole.reasoning + whole.text)).toBe(letters(units.join("")));
      }),
      { numRuns: rounds(3_000) },
    );
  });
});
