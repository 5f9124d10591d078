import * as z from "zod";
import { oneOf, text, trueOrFalse, wholeNumber } from "./setting-types.js";

const tokenCount = wholeNumber(0, 1_000_000_000);
const delay = wholeNumber(0, 3_600_000);

const toolCall = z.strictObject({
  name: text("the name of a tool").describe("Name of the called tool."),
  arguments: z
    .union([z.record(z.string(), z.json()), z.string()], { error: "must be an object, or JSON as text" })
    .optional()
    .describe("An object, or JSON as text. Default {}."),
});

/** `scripted:` of a model or deployment: output and failures of the scripted engine. */
export const scriptedSettings = z
  .strictObject({
    text: z.string({ error: "must be text" }).describe("Output. Default: the last user message or the prompt."),
    tokens: tokenCount.describe("Number of tokens to which the text is repeated or cut."),
    first_token_delay_ms: delay.describe("Milliseconds before the first token. Default 0."),
    token_delay_ms: delay.describe("Milliseconds between tokens. Default 0."),
    tool_call: toolCall.describe("Tool call to make if the request has tools and does not end with a tool's result."),
    tool_calls: z.array(toolCall).describe("Several tool calls."),
    tool_rounds: z
      .array(z.array(toolCall))
      .describe("Tool calls of each answer of an agent's loop, in place of `tool_calls`; then the text."),
    finish_reason: oneOf(["content_filter"]).describe("Finish reason."),
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
        times: wholeNumber(1, 1_000_000_000).describe("Number of calls that fail. Default: all.").optional(),
      })
      .describe("Fails instead of finishing."),
    hang_after_tokens: tokenCount.describe("Number of tokens after which it hangs until the request is aborted."),
    dimensions: wholeNumber(1, 65_536).describe("Vector length; makes it an embedding model."),
    context_length: wholeNumber(1, 100_000_000).describe("Tokens of prompt and answer together. Default 4096."),
    rerank: trueOrFalse.describe("Makes it a reranking model, which scores by shared words. Default false."),
    token_input: trueOrFalse.describe("Whether prompts and inputs may be token ids. Default false."),
  })
  .partial()
  .describe("Output and failures of the scripted engine.")
  .check(({ value: options, issues }) => {
    if (options.tool_call !== undefined && options.tool_calls !== undefined) {
      const message = "excludes tool_call: set one of them";
      issues.push({ code: "custom", input: options, path: ["tool_calls"], message });
    }
    if (options.tool_rounds !== undefined && (options.tool_call ?? options.tool_calls) !== undefined) {
      const message = "excludes tool_call and tool_calls: set one of them";
      issues.push({ code: "custom", input: options, path: ["tool_rounds"], message });
    }
  });
