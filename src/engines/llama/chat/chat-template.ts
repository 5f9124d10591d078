import { EngineError } from "../../../domain/engine/engine.js";
import { RanTooLong, runBounded } from "../../../lib/bounded-run.js";
import type { TemplateMessage, TemplateTool } from "../protocol/protocol.js";
import {
  Environment,
  type JinjaNode,
  parseTemplate,
  TemplateRefusal,
  TemplateTooLarge,
  templateCharsMax,
  templateGlobals,
} from "./jinja.js";
import { TemplateInterpreter } from "./jinja-interpreter.js";

export interface SpecialTexts {
  readonly bos: string;
  readonly eos: string;
}

export interface TemplateInput {
  readonly messages: readonly TemplateMessage[];
  readonly tools: readonly TemplateTool[];
  /** Variables of the template; its globals take precedence. */
  readonly variables: Readonly<Record<string, unknown>>;
}

/** An input whose contents may be lists of parts. */
interface AnyInput extends Omit<TemplateInput, "messages"> {
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
}

/** A text that no template contains. */
const probe = "probe-1d0c";

function partsOf(text: unknown): readonly object[] {
  return [{ type: "text", text }];
}

/** Time limit of compiling, and of one `render` with all its attempts. */
const timeMsMax = 1_000;
/** A longer conversation may exceed a template's bounds although the template is correct. */
const ordinaryCharsMax = templateCharsMax / 8;
const refusalCharsMax = 300;
const greeting: TemplateInput = { messages: [{ role: "user", content: "Hello" }], tools: [], variables: {} };

/** A model's chat template. It is part of the model file, so compiling and rendering have time limits. */
export class ChatTemplate {
  readonly isFallback: boolean;
  /** Format of the template's tools and calls; null: none that is supported. */
  readonly toolFormat: "hermes" | null;
  /** Whether the model may think before it answers. */
  readonly thinks: boolean;
  readonly #program: JinjaNode;
  readonly #special: SpecialTexts;
  readonly #now: () => Date;
  /** Whether the template takes contents as lists of parts only; null: not known yet. */
  #takesParts: boolean | null = null;

  /** ChatML replaces a `source` that is null or does not compile. */
  constructor(source: string | null, special: SpecialTexts, now: () => Date = () => new Date()) {
    const own = source === null ? null : compile(source);
    const text = own === null ? chatMl : (source ?? chatMl);
    this.isFallback = own === null;
    this.#program = own ?? parseTemplate(chatMl);
    this.toolFormat = writesHermesCalls(text) ? "hermes" : null;
    this.thinks = /enable_thinking|<think>/.test(text);
    this.#special = special;
    this.#now = now;
  }

  /**
   * The prompt, up to the beginning of the assistant's answer. Bounded by 1 s and 4 MiB (SEC-26). Throws EngineError:
   * `bad_input` with param `messages` if the template cannot express the conversation, `context_overflow` if the
   * conversation itself exceeds the bounds, `internal` if the template is at fault.
   */
  render(input: TemplateInput): string {
    const untilMs = performance.now() + timeMsMax;
    this.#takesParts ??= !this.#writes(probe, untilMs) && this.#writes(partsOf(probe), untilMs);
    let refusal: TemplateRefusal | null = null;
    for (const messages of systemForms(input.messages)) {
      const outcome = this.#attempt({ ...input, messages }, untilMs);
      if (typeof outcome === "string") return outcome;
      refusal ??= outcome;
    }
    const why = refusal?.message.slice(0, refusalCharsMax) ?? "";
    throw new EngineError("bad_input", `The chat template of the model refuses this conversation: ${why}`, {
      param: "messages",
      cause: refusal,
    });
  }

  /** Whether the prompt opens the model's thoughts, so that the answer begins inside of them. Throws as `render`. */
  opensThinking(variables: Readonly<Record<string, unknown>>): boolean {
    return this.thinks && endsInThinking(this.render({ ...greeting, variables }));
  }

  /** Whether the prompt contains the probe text. Some templates with image support accept parts only and drop a plain text. */
  #writes(content: unknown, untilMs: number): boolean {
    try {
      return this.#run({ ...greeting, messages: [{ role: "user", content }] }, untilMs).includes(probe);
    } catch {
      // The template refuses this content or is broken; the next attempt to render reports which.
      return false;
    }
  }

  #attempt(input: TemplateInput, untilMs: number): string | TemplateRefusal {
    try {
      return this.#run(input, untilMs);
    } catch (thrown) {
      if (thrown instanceof TemplateRefusal) return thrown;
      if (thrown instanceof RanTooLong || thrown instanceof TemplateTooLarge) throw boundError(input, thrown);
      throw this.#faultOf(thrown, untilMs);
    }
  }

  #run(input: AnyInput, untilMs: number): string {
    return runBounded(() => {
      const environment = new Environment();
      for (const [name, value] of Object.entries(this.#names(input))) environment.set(name, value);
      const rendered = new TemplateInterpreter(environment).run(this.#program);
      return String(rendered.value);
    }, untilMs - performance.now());
  }

  #names({ messages, tools, variables }: AnyInput): Readonly<Record<string, unknown>> {
    return {
      documents: null,
      ...variables,
      ...templateGlobals(this.#now),
      messages:
        this.#takesParts === true
          ? messages.map((message) => ({ ...message, content: partsOf(message.content) }))
          : messages,
      tools: tools.length === 0 ? null : tools.map(withoutStrict),
      bos_token: this.#special.bos,
      eos_token: this.#special.eos,
      add_generation_prompt: true,
    };
  }

  /** A template that cannot render a greeting is broken; otherwise it does not support something in the conversation. */
  #faultOf(thrown: unknown, untilMs: number): EngineError {
    const why = thrown instanceof Error ? thrown.message.slice(0, refusalCharsMax) : "unknown";
    try {
      this.#run(greeting, untilMs);
    } catch (cause) {
      if (!(cause instanceof TemplateRefusal)) {
        return new EngineError("internal", `The chat template of the model is broken: ${why}`, { cause: thrown });
      }
    }
    return new EngineError("bad_input", `The chat template of the model cannot express this conversation: ${why}`, {
      param: "messages",
      cause: thrown,
    });
  }
}

/** Whether a prompt stops after the opening of the model's thoughts. */
export function endsInThinking(prompt: string): boolean {
  return prompt.trimEnd().endsWith("<think>");
}

function compile(source: string): JinjaNode | null {
  try {
    return runBounded(() => parseTemplate(source), timeMsMax);
  } catch {
    // The caller uses ChatML and sets `isFallback`.
    return null;
  }
}

/** Whether calls are JSON between `<tool_call>` markers; some templates have other formats between the same markers. */
function writesHermesCalls(source: string): boolean {
  const writesCalls = source.includes("<tool_call>") && source.includes("</tool_call>") && /\btools\b/.test(source);
  return writesCalls && source.includes("arguments") && !/<function=|<arg_key>/.test(source);
}

/** `strict` is an option of the API; models were not trained with it. */
function withoutStrict({ type, function: { name, description, parameters } }: TemplateTool): object {
  return { type, function: { name, ...(description === undefined ? {} : { description }), parameters } };
}

function boundError(input: TemplateInput, cause: RanTooLong | TemplateTooLarge): EngineError {
  if (textLength(input) > ordinaryCharsMax) {
    const message = "The conversation is longer than any prompt may be: its text alone fills the template's bounds.";
    return new EngineError("context_overflow", message, { param: "messages", cause });
  }
  return new EngineError("internal", `The chat template of the model exceeded its bounds: ${cause.message}`, {
    cause,
  });
}

/** Characters of all texts, plus one for each value. */
function textLength(value: unknown): number {
  if (typeof value === "string") return value.length + 1;
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce((sum: number, part) => sum + textLength(part), 1);
}

/**
 * The conversation unchanged and, for templates that refuse it, with its system messages moved (MSG-10): all in one at
 * the start, then at the start of the first user message. Forms that change nothing are left out.
 */
export function* systemForms(messages: readonly TemplateMessage[]): Generator<readonly TemplateMessage[], void> {
  yield messages;
  const system = messages.filter(({ role }) => role === "system");
  if (system.length === 0) return;
  const content = system.map((message) => message.content).join("\n\n");
  const others = messages.filter(({ role }) => role !== "system");
  if (system.length > 1 || messages[0]?.role !== "system") yield [{ role: "system", content }, ...others];
  const asked = others.findIndex(({ role }) => role === "user");
  if (asked < 0) return;
  yield others.map((message, i) =>
    i === asked ? { ...message, content: `${content}\n\n${message.content}` } : message,
  );
}

/** ChatML, the format of most small models, for models without a template or with a broken one. */
export const chatMl = [
  "{%- for message in messages -%}",
  "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}",
  "{%- endfor -%}",
  "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}",
].join("\n");
