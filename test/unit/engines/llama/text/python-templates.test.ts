import { readFileSync } from "node:fs";
import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MessageSchema, Role } from "../../../../../gen/unified/inference/v1/chat_pb.js";
import { EngineError } from "../../../../../src/domain/engine/engine.js";
import { ChatTemplate, type TemplateInput } from "../../../../../src/engines/llama/chat/chat-template.js";
import { toTemplateMessages } from "../../../../../src/engines/llama/chat/template-input.js";

type Messages = TemplateInput["messages"];
/** The text that Python rendered, or the name of the error that it raised. */
type Rendered = { readonly text: string } | { readonly error: string };

interface Inputs {
  readonly special: { readonly bos_token: string; readonly eos_token: string };
  readonly families: Readonly<Record<string, string>>;
  readonly tools: TemplateInput["tools"];
  readonly conversations: Readonly<
    Record<string, { messages: Messages; tools?: boolean; variables?: Readonly<Record<string, unknown>> }>
  >;
  /** If a template refuses the system messages of a conversation, this engine renders another conversation (MSG-10). */
  readonly moved: Readonly<Record<string, string>>;
  readonly snippets: Readonly<Record<string, string>>;
  readonly snippetMessages: Messages;
  readonly snippetVariables: Readonly<Record<string, unknown>>;
}

interface Recorded {
  readonly families: Readonly<Record<string, Readonly<Record<string, Rendered>>>>;
  readonly snippets: Readonly<Record<string, Rendered>>;
}

const folder = "test/fixtures/chat-templates";
const json = (name: string): unknown => JSON.parse(readFileSync(`${folder}/${name}.json`, "utf8"));
const inputs = json("inputs") as Inputs;
const recorded = json("recorded") as Recorded;
const special = { bos: inputs.special.bos_token, eos: inputs.special.eos_token };

function render(source: string, input: TemplateInput): Rendered {
  const template = new ChatTemplate(source, special);
  expect(template.isFallback).toBe(false);
  try {
    return { text: template.render(input) };
  } catch (thrown) {
    if (thrown instanceof EngineError) return { error: thrown.message };
    throw thrown;
  }
}

/** Compares the texts. Errors have other names and messages than in Python, so only their presence is compared. */
function expectSame(actual: Rendered, expected: Rendered): void {
  if ("text" in expected) expect(actual).toEqual(expected);
  else expect(actual).toEqual({ error: expect.any(String) });
}

describe.each(Object.entries(inputs.families))("the chat template %s (%s)", (name) => {
  const source = readFileSync(`${folder}/${name}.jinja`, "utf8");
  const ofPython = recorded.families[name] ?? {};

  it.each(Object.entries(inputs.conversations))("renders '%s' as Python does (E-9)", (title, conversation) => {
    const { messages, tools = false, variables = {} } = conversation;
    const expected = ofPython[title] ?? { error: "not recorded" };
    const moved = "error" in expected ? ofPython[inputs.moved[title] ?? ""] : undefined;
    const actual = render(source, { messages, tools: tools ? inputs.tools : [], variables });
    expectSame(actual, moved ?? expected);
  });

  it("renders text parts as Python renders their joined text (E-9)", () => {
    const part = (value: string) => ({ part: { case: "text", value } }) as const;
    const roles = [Role.USER, Role.ASSISTANT, Role.USER];
    const texts = [["On", "e?"], ["Two."], ["", "Three", "?"]];
    const messages = roles.map((role, i) => create(MessageSchema, { role, content: (texts[i] ?? []).map(part) }));
    const actual = render(source, { messages: toTemplateMessages(messages), tools: [], variables: {} });
    expectSame(actual, ofPython["turns"] ?? { error: "not recorded" });
  });
});

describe("a template", () => {
  it.each(Object.entries(inputs.snippets))("renders %s as Python does (E-9)", (title, source) => {
    const input = { messages: inputs.snippetMessages, tools: [], variables: inputs.snippetVariables };
    expectSame(render(source, input), recorded.snippets[title] ?? { error: "not recorded" });
  });
});
