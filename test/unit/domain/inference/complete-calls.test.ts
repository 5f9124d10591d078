import { describe, expect, it } from "vitest";
import type { GenEvent } from "../../../../src/domain/engine/engine.js";
import { CompleteCalls } from "../../../../src/domain/inference/chat-answer.js";

const start = (index: number, argsDelta?: string, choice = 0): GenEvent => ({
  type: "tool",
  choice,
  index,
  outTokens: 1,
  id: `call_${choice}_${index}`,
  name: "f",
  ...(argsDelta === undefined ? {} : { argsDelta }),
});
const more = (index: number, argsDelta: string): GenEvent => ({
  type: "tool",
  choice: 0,
  index,
  outTokens: 2,
  argsDelta,
});
const finish = (reason: "tool_calls" | "length" = "tool_calls", choice = 0): GenEvent => ({
  type: "finish",
  choice,
  reason,
  outTokens: 2,
});

/** The arguments of each call as a client joins them. */
function argumentsOf(...events: GenEvent[]): Record<string, string> {
  const calls = new CompleteCalls();
  const joined: Record<string, string> = {};
  for (const event of events) {
    for (const said of [calls.before(event), event]) {
      if (said?.type !== "tool") continue;
      const key = `${said.choice}.${said.index}`;
      joined[key] = (joined[key] ?? "") + (said.argsDelta ?? "");
    }
  }
  return joined;
}

describe("CompleteCalls", () => {
  it("gives a call without arguments the arguments {}, whether another call or the end of the answer follows (TOOL-11, STRM-9)", () => {
    expect(argumentsOf(start(0), start(1, ""), finish())).toEqual({ "0.0": "{}", "0.1": "{}" });
  });

  it("leaves a call with arguments unchanged, however they are split into fragments (STRM-9)", () => {
    expect(argumentsOf(start(0, '{"a"'), more(0, ":1}"), start(1), more(1, ""), more(1, "[]"), finish())).toEqual({
      "0.0": '{"a":1}',
      "0.1": "[]",
    });
  });

  it("leaves the partial arguments of a call that was cut off by the length limit (TOOL-15)", () => {
    expect(argumentsOf(start(0), start(1, ""), finish("length"))).toEqual({ "0.0": "{}", "0.1": "" });
  });

  it("tracks the choices of an answer separately", () => {
    expect(argumentsOf(start(0), start(0, "{}", 1), finish("tool_calls", 1), finish())).toEqual({
      "0.0": "{}",
      "1.0": "{}",
    });
  });
});
