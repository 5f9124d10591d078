/**
 * The binding of the embedded engine, which also writes the evaluated tokens to standard error: one line of JSON per call,
 * `{"evaluates":"piece"|"answer","tokens":[...]}`. A service uses it through its setting `engine.module_dir`.
 */
import * as binding from "node-llama-cpp";

export * from "node-llama-cpp";

/** With a custom build the service would use a GPU if there is one; these tests measure the CPU. */
export function getLlama(options) {
  return binding.getLlama({ ...options, gpu: false });
}

function tell(evaluates, tokens) {
  process.stderr.write(`${JSON.stringify({ evaluates, tokens })}\n`);
}

const { prototype } = binding.LlamaContextSequence;
const { evaluateWithoutGeneratingNewTokens, evaluateWithMetadata } = prototype;

prototype.evaluateWithoutGeneratingNewTokens = function evaluatePiece(tokens, ...rest) {
  tell("piece", tokens);
  return evaluateWithoutGeneratingNewTokens.call(this, tokens, ...rest);
};

prototype.evaluateWithMetadata = function evaluateAnswer(tokens, ...rest) {
  tell("answer", tokens);
  return evaluateWithMetadata.call(this, tokens, ...rest);
};
