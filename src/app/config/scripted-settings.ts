import * as z from "zod";
import { oneOf, text, trueOrFalse, wholeNumber } from "./setting-types.js";

const tokenCount = wholeNumber(0, 1_000_000_000);
const delay = wholeNumber(0, 3_600_000);

const toolCall = z.strictObject({
  name: text("the name of a tool").describe("The tool that is called."),
  arguments: z
    .union([z.record(z.string(), z.json()), z.string()], { error: "must be an object, or JSON as text" })
    .optional()
    .describe("An object, or JSON as text. Default {}."),
});

/** `scripted:` of a model or deployment: what the scripted engine says, and how it fails. */
export const scriptedSettings = z
  .strictObject({
    text: z
      .string({ error: "must be text" })
      .describe("What it says. Default: it repeats the last user message or the prompt."),
    tokens: tokenCount.describe("Repeat or cut the text to that many tokens."),
    first_token_delay_ms: delay.describe("Milliseconds before the first token. Default 0."),
    token_delay_ms: delay.describe("Milliseconds between tokens. Default 0."),
    tool_call: toolCall.describe("The tool call that it makes when tools are offered."),
    tool_calls: z.array(toolCall).describe("Several of them."),
    finish_reason: oneOf(["content_filter"]).describe("Ends with this reason."),
    fail: z
      .strictObject({
        after_tokens: tokenCount.describe("0: before the first token. Default 0.").optional(),
        code: oneOf([
          "internal_error",
          "upstream_error",
          "server_is_overloaded",
          "upstream_timeout",
          "context_length_exceeded",
        ]),
        times: wholeNumber(1, 1_000_000_000).describe("Only the first N calls. Default: all.").optional(),
      })
      .describe("Fails instead of finishing."),
    hang_after_tokens: tokenCount.describe("Says no more after so many tokens until the request is ended."),
    dimensions: wholeNumber(1, 65_536).describe("Makes it an embedding model with vectors of this length."),
    context_length: wholeNumber(1, 100_000_000).describe("Tokens of prompt and answer together. Default 4096."),
    token_input: trueOrFalse.describe("Whether prompts and inputs may be token ids. Default false."),
  })
  .partial()
  .describe("What the scripted engine says, and how it fails.")
  .check(({ value: options, issues }) => {
    if (options.tool_call !== undefined && options.tool_calls !== undefined) {
      issues.push({
        code: "custom",
        input: options,
        path: ["tool_calls"],
        message: "excludes tool_call: set one of them",
      });
    }
  });
