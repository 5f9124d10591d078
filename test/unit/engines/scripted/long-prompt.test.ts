import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MessageSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { countTokens } from "../../../../src/engines/scripted/choices.js";
import { promptTokensOf } from "../../../../src/engines/scripted/generation.js";

const message = (value: string) =>
  create(MessageSchema, { role: Role.USER, content: [{ part: { case: "text", value } }] });
const chat = (...texts: readonly string[]) =>
  ({ messages: texts.map(message), tools: [], toolChoice: { mode: "none" }, parallelToolCalls: false }) as const;

describe("promptTokensOf", () => {
  it("counts a short prompt synchronously", () => {
    expect(promptTokensOf(chat("one two", "three"))).toBe(3);
    expect(promptTokensOf({ prompt: [1, 2] })).toBe(2);
  });

  it("counts a long prompt in several turns of the event loop, with the correct result (REL-3)", async () => {
    const texts = ["lorem ipsum  dolor\n".repeat(120_000), "", "x".repeat(2_100_000), " ".repeat(1_048_577)];
    const sum = texts.reduce((total, text) => total + countTokens(text), 0);
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    const counting = promptTokensOf(chat(...texts));
    expect(counting).toBeInstanceOf(Promise);
    expect(await counting).toBe(sum);
    isOver = true;
    expect(turns).toBeGreaterThanOrEqual(4);
    expect(await promptTokensOf({ prompt: texts[0] ?? "" })).toBe(countTokens(texts[0] ?? ""));
  });
});
