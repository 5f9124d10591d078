import { Interpreter, type JinjaEnvironment, type JinjaValue } from "./jinja.js";

/** A value of the template grew beyond what any prompt needs. */
export class TemplateTooLarge extends Error {
  override readonly name = "TemplateTooLarge";
}

/** 4 MiB of UTF-16 code units: more text than the context of any model holds. */
export const templateCharsMax = 4 * 1024 * 1024;
export const templateItemsMax = 100_000;

/**
 * Refuses any text or list above its bound as soon as it exists. The clock alone would not do: a list that doubles
 * itself takes all memory within a second.
 */
export class TemplateInterpreter extends Interpreter {
  override evaluate(statement: unknown, environment: JinjaEnvironment): JinjaValue {
    const result = super.evaluate(statement, environment);
    const { value } = result;
    if (typeof value === "string" && value.length > templateCharsMax) {
      throw new TemplateTooLarge(`a text of more than ${templateCharsMax} characters`);
    }
    if (Array.isArray(value) && value.length > templateItemsMax) {
      throw new TemplateTooLarge(`a list of more than ${templateItemsMax} items`);
    }
    return result;
  }
}
