import { describe, expect, it } from "vitest";
import { userMessage } from "../../../src/dashboard/pages/playground/answers.js";
import {
  type Conversation,
  conversationBounds,
  newConversation,
  parseConversations,
  titleOf,
  withConversation,
} from "../../../src/dashboard/pages/playground/conversations.js";
import { noSettings } from "../../../src/dashboard/pages/playground/requests.js";

function conversation(text: string): Conversation {
  return { ...newConversation("m", noSettings), messages: [userMessage(text)] };
}

const textsOf = (all: readonly Conversation[]) => all.map(({ messages }) => messages[0]?.text.slice(0, 8));

describe("kept conversations", () => {
  it("are listed newest first, each once", () => {
    const [one, two] = [conversation("one"), conversation("two")];
    const all = [one, two].reduce(withConversation, []);
    expect(textsOf(all)).toEqual(["two", "one"]);
    expect(textsOf(withConversation(all, { ...one, messages: [userMessage("more")] }))).toEqual(["more", "two"]);
  });

  it("are dropped, the oldest first, beyond the largest number or length", () => {
    const { count, chars } = conversationBounds;
    const many = Array.from({ length: count + 5 }, (_none, index) => conversation(String(index)));
    expect(textsOf(many.reduce(withConversation, []))).toHaveLength(count);
    const half = "x".repeat(chars / 2);
    const long = ["1", "2", "3"]
      .map((name) => conversation(`${name}${half.slice(1_000)}`))
      .reduce(withConversation, []);
    expect(textsOf(long)).toEqual(["3xxxxxxx", "2xxxxxxx"]);
    expect(withConversation([], conversation("x".repeat(chars)))).toEqual([]);
  });

  it("are parsed with defaults for settings of later versions, and damaged ones are left out", () => {
    const kept = conversation("Hi");
    const { seed, ...older } = kept.settings;
    expect(seed).toBe("");
    const stored = [{ ...kept, settings: older }, null, { ...kept, messages: [{ role: "system" }] }, { id: 1 }, "x"];
    expect(parseConversations(JSON.stringify(stored))).toEqual([kept]);
    for (const text of [null, "", "{", "{}", "null"]) expect(parseConversations(text)).toEqual([]);
  });

  it("have the beginning of the user's first message as title", () => {
    expect(titleOf(conversation(" What\n is  this? "))).toBe("What is this?");
    expect(titleOf(conversation("word ".repeat(30)))).toMatch(/^(word ){11}word…$/);
  });
});
