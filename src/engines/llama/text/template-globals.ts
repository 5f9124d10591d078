import { strftime } from "./strftime.js";
import { TemplateTooLarge, templateItemsMax } from "./template-interpreter.js";

/** The template itself says, by `raise_exception`, that it cannot express the conversation. */
export class TemplateRefusal extends Error {
  override readonly name = "TemplateRefusal";
}

/** The names that every chat template may use. `now` gives the time for `strftime_now`. */
export function templateGlobals(now: () => Date): Readonly<Record<string, unknown>> {
  return {
    true: true,
    True: true,
    false: false,
    False: false,
    none: null,
    None: null,
    range,
    raise_exception: (why: unknown): never => {
      throw new TemplateRefusal(String(why));
    },
    strftime_now: (format: unknown): string => strftime(now(), String(format)),
  };
}

function range(first: number, second?: number, step = 1): readonly number[] {
  const [from, to] = second === undefined ? [0, first] : [first, second];
  if (!Number.isInteger(from) || !Number.isInteger(to) || !Number.isInteger(step) || step === 0) {
    throw new TypeError("range takes whole numbers and a step other than 0");
  }
  const length = Math.max(0, Math.ceil((to - from) / step));
  if (length > templateItemsMax) throw new TemplateTooLarge(`a range of more than ${templateItemsMax} numbers`);
  return Array.from({ length }, (_, i) => from + i * step);
}
