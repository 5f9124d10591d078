import { describe, expect, it } from "vitest";
import { EngineError } from "../../../../../src/domain/engine/engine.js";
import { ChatTemplate } from "../../../../../src/engines/llama/chat/chat-template.js";
import { hermesTemplate, said, smallTemplate, special, turnsTemplate, weatherTool } from "./templates.js";

const hello = said({ role: "user", content: "Hello" });

function refusalOf(template: ChatTemplate, input = hello): EngineError {
  try {
    template.render(input);
  } catch (thrown) {
    if (thrown instanceof EngineError) return thrown;
    throw thrown;
  }
  throw new Error("rendered");
}

describe("ChatTemplate", () => {
  it("renders the model's own template up to the beginning of the answer", () => {
    const template = new ChatTemplate(smallTemplate, special);
    expect(template).toMatchObject({ isFallback: false, toolFormat: null, thinks: false });
    expect(template.render(said({ role: "user", content: "What is the capital of France?" }))).toBe(
      "<|im_start|>system\nYou are a small model.<|im_end|>\n" +
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    );
  });

  it.each([null, "{{ bad", "{% for %}", "{% if"])("falls back to ChatML for the template %j", (source) => {
    const template = new ChatTemplate(source, special);
    expect(template).toMatchObject({ isFallback: true, toolFormat: null, thinks: false });
    expect(template.render(said({ role: "system", content: "Be brief." }, { role: "user", content: " Hi\n" }))).toBe(
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\n",
    );
  });

  it("renders tools, calls, results and thoughts if the template supports them", () => {
    const template = new ChatTemplate(hermesTemplate, special);
    expect(template).toMatchObject({ isFallback: false, toolFormat: "hermes", thinks: true });
    const call = (id: string, args: unknown) =>
      ({ id, type: "function", function: { name: "get_weather", arguments: args } }) as const;
    const prompt = template.render({
      messages: [
        { role: "user", content: "Weather in Oslo and Rome?" },
        { role: "assistant", content: "", tool_calls: [call("a", { city: "Oslo" }), call("b", "{broken")] },
        { role: "tool", content: "4 degrees", tool_call_id: "a" },
        { role: "tool", content: "no such call", tool_call_id: "b" },
        { role: "assistant", content: "<think>hm</think>\n\nCold." },
        { role: "user", content: "Thanks" },
      ],
      tools: [weatherTool],
      variables: { enable_thinking: false },
    });
    expect(prompt).toBe(
      "<|im_start|>system\nFunctions that may help:\n<tools>\n" +
        '{"type": "function", "function": {"name": "get_weather", "description": "The weather of a place.", ' +
        '"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}\n' +
        '</tools>\nCall one with:\n<tool_call>\n{"name": <its name>, "arguments": <its values>}\n</tool_call><|im_end|>\n' +
        "<|im_start|>user\nWeather in Oslo and Rome?<|im_end|>\n" +
        '<|im_start|>assistant\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n' +
        '<tool_call>\n{"name": "get_weather", "arguments": {broken}\n</tool_call><|im_end|>\n' +
        "<|im_start|>user\n<tool_response>\n4 degrees\n</tool_response>\n<tool_response>\nno such call\n</tool_response><|im_end|>\n" +
        "<|im_start|>assistant\nCold.<|im_end|>\n<|im_start|>user\nThanks<|im_end|>\n" +
        "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    );
  });

  it("parses only Hermes calls between Hermes markers, not other formats", () => {
    const xml = "{{ tools }}<tool_call>\n<function=name>\n<parameter=x>arguments</tool_call>";
    expect(new ChatTemplate(xml, special).toolFormat).toBeNull();
  });

  it("detects whether the prompt opens the model's thoughts", () => {
    const opens = "{{ messages[0].content }}{% if enable_thinking %}<think>\n{% endif %}";
    expect(new ChatTemplate(opens, special).opensThinking({ enable_thinking: true })).toBe(true);
    expect(new ChatTemplate(opens, special).opensThinking({ enable_thinking: false })).toBe(false);
    expect(new ChatTemplate(hermesTemplate, special).opensThinking({})).toBe(false);
  });

  it("does not let the request's variables replace globals of the template, and formats the time in UTC", () => {
    const source =
      "{{ bos_token }}{{ messages | length }}{{ add_generation_prompt }}{{ extra }}{{ strftime_now('%d %b %Y, %I:%M %p') }}";
    const template = new ChatTemplate(source, special, () => new Date("2026-03-07T15:04:05Z"));
    const variables = { messages: [], bos_token: "?", add_generation_prompt: false, true: 1, range: 2, extra: "!" };
    expect(template.render({ ...hello, variables })).toBe("<s>1True!07 Mar 2026, 03:04 PM");
  });

  it("moves system messages if the template refuses their position (MSG-10)", () => {
    const template = new ChatTemplate(turnsTemplate, special);
    const one = { role: "system", content: "One." } as const;
    const two = { role: "system", content: "Two." } as const;
    expect(template.render(said(one, { role: "user", content: "Hi" }, two))).toBe("<s>[user]One.\n\nTwo.\n\nHi</s>");
    const leading =
      "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('late') }}{% endif %}[{{ m.content }}]{% endfor %}";
    expect(new ChatTemplate(leading, special).render(said({ role: "user", content: "Hi" }, one, two))).toBe(
      "[One.\n\nTwo.][Hi]",
    );
  });

  it("a conversation that the template rejects or cannot express is a client error (MSG-10)", () => {
    const twice = said({ role: "user", content: "a" }, { role: "user", content: "b" });
    const refused = refusalOf(new ChatTemplate(turnsTemplate, special), twice);
    expect(refused).toMatchObject({ code: "bad_input", param: "messages" });
    expect(refused.message).toContain("Roles must take turns");
    const picky = "{% for m in messages %}{{ m.name + '' if m.role == 'tool' else m.content }}{% endfor %}";
    const unknown = refusalOf(new ChatTemplate(picky, special), said({ role: "tool", content: "x" }));
    expect(unknown).toMatchObject({ code: "bad_input", param: "messages" });
  });
});

describe("ChatTemplate: hostile templates", () => {
  const grow = (start: string, step: string, times: number, end: string) =>
    `{% set ns = namespace(s=${start}) %}{% for i in range(${times}) %}{% set ns.s = ${step} %}{% endfor %}${end}`;
  const hostile: Readonly<Record<string, string>> = {
    "a loop of 10^9 rounds": "{% for a in range(100000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
    "a range of 10^9": "{{ range(1000000000) | length }}",
    "a text that doubles itself": grow("'x'", "ns.s ~ ns.s", 40, "{{ ns.s }}"),
    "a list that doubles itself": grow("[1]", "ns.s + ns.s", 40, ""),
    "a huge repeat by replacing": grow("'x'", "ns.s ~ ns.s", 21, "{{ ns.s.replace('x', ns.s) }}"),
    "a nesting that doubles itself": grow("[1]", "[ns.s, ns.s]", 40, "{{ ns.s | tojson }}"),
    "a walk to a constructor by a text": "{{ ''.constructor.constructor('return process')().exit() }}",
    "a walk to a constructor by a list": "{{ messages.__proto__.constructor('x')() }}",
    "a walk to a constructor by a function": "{{ range.constructor('return globalThis')().process.exit() }}",
    "a walk through Python's classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "a name of the runtime": "{{ process.exit() }}{{ require('fs') }}",
    "a macro that calls itself": "{% set ns = namespace() %}{% macro f(x) %}{{ x(x) }}{% endmacro %}{{ f(f) }}",
  };

  it.each(Object.keys(hostile))("%s ends in bounded time as an internal error (SEC-26)", (name) => {
    const template = new ChatTemplate(hostile[name] ?? "", special);
    const startedAtMs = performance.now();
    expect(refusalOf(template)).toMatchObject({ code: "internal", param: null });
    expect(performance.now() - startedAtMs).toBeLessThan(5_000);
  });

  it("the time to compile a template is bounded (SEC-26)", () => {
    for (const source of ["{{".repeat(200_000), `{{ ${"(".repeat(200_000)}`, `{% if ${"not ".repeat(200_000)} %}`]) {
      const startedAtMs = performance.now();
      expect(new ChatTemplate(source, special).isFallback).toBe(true);
      expect(performance.now() - startedAtMs).toBeLessThan(5_000);
    }
  });

  it("a conversation whose text alone exceeds the bounds is reported as too long, not as a fault of the template", () => {
    const template = new ChatTemplate(smallTemplate, special);
    const long = said({ role: "user", content: "x".repeat(5_000_000) });
    expect(refusalOf(template, long)).toMatchObject({ code: "context_overflow", param: "messages" });
    const many = said(...Array.from({ length: 120_000 }, () => ({ role: "user", content: "" }) as const));
    expect(refusalOf(template, many)).toMatchObject({ code: "context_overflow", param: "messages" });
  });
});
