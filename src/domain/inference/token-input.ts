import { ServiceError } from "../call/service-error.js";

/**
 * Refuses token ids for a model that does not take them (EMB-2): clients that count in another vocabulary would get a
 * wrong answer without noticing. The hint names the setting of the client that does it by default.
 */
export function refuseUnlessTokenInput(able: boolean, param: string, model: string): void {
  if (able) return;
  throw new ServiceError(
    "token_input_not_supported",
    `The model '${model}' takes '${param}' as text, not as token ids. With LangChain for Python, set ` +
      "check_embedding_ctx_length=False.",
    { param },
  );
}
