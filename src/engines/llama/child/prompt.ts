import { EngineError } from "../../../domain/engine/engine.js";
import type { ChildInput } from "../protocol.js";
import type { ChatTemplate } from "../text/chat-template.js";
import { promptPieces } from "../text/prompt-pieces.js";
import type { OutputPlan } from "../tools/output-plan.js";
import { checkTokenIds } from "./check-token-ids.js";
import type { NativeModel } from "./native-model.js";

export interface Prompt {
  readonly tokens: readonly number[];
  /** The field that it came from, for errors about it. */
  readonly param: "messages" | "prompt";
}

/** The tokens that the model goes on from, one at least. Throws EngineError: `bad_input`, or what the template throws. */
export function toPrompt(model: NativeModel, template: ChatTemplate, input: ChildInput, plan: OutputPlan): Prompt {
  switch (input.type) {
    case "chat": {
      const tokens = promptPieces(template, input, plan, model.vocabulary.controlTexts).flatMap(
        ({ text, control }, place) => model.tokenize(text, { control, continued: place > 0 }),
      );
      return { tokens: withBegin(model, tokens, "messages"), param: "messages" };
    }
    case "text":
      return { tokens: withBegin(model, model.tokenize(input.text), "prompt"), param: "prompt" };
    case "tokens":
      checkTokenIds(input.tokens, model.vocabulary.size, "prompt");
      return { tokens: input.tokens.length === 0 ? withBegin(model, [], "prompt") : input.tokens, param: "prompt" };
  }
}

/** The token that begins a text, where the model was trained with one or where there is nothing else to go on from. */
function withBegin({ vocabulary }: NativeModel, tokens: readonly number[], param: string): readonly number[] {
  const { begin } = vocabulary;
  if (begin !== null && (tokens.length === 0 || (begin.always && tokens[0] !== begin.token))) {
    return [begin.token, ...tokens];
  }
  if (tokens.length > 0) return tokens;
  const message = "The prompt is empty, and this model has no token that begins a text. Give it at least one word.";
  throw new EngineError("bad_input", message, { param });
}
