import { EngineError } from "../../../domain/engine/engine.js";

/** Refuses ids that are not in the vocabulary: the native code would end the process over one. */
export function checkTokenIds(tokens: readonly number[], vocabSize: number, param: string): void {
  const strange = tokens.find((token) => !Number.isInteger(token) || token < 0 || token >= vocabSize);
  if (strange === undefined) return;
  throw new EngineError(
    "bad_input",
    `The token ids in '${param}' must be from 0 to ${vocabSize - 1} for this model, but one is ${strange}.`,
    { param },
  );
}
