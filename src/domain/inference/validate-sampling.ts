import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import { checkCount, checkInteger, checkLength, checkNumber, quote, refuse } from "../call/field-checks.js";
import type { SamplingParams } from "./sampling-request.js";

const tokenId = /^\d{1,10}$/;
/** Only in strings that came from JSON: no text that a model makes can contain one. */
const loneSurrogate = /\p{Surrogate}/u;

/** The rules that chat and text completions share: ranges of the sampling parameters, stop strings, logit_bias. */
export function validateSampling(params: SamplingParams, limits: ServiceLimits): void {
  checkNumber(params.temperature, "temperature", 0, 2);
  checkNumber(params.topP, "top_p", 0, 1);
  checkNumber(params.frequencyPenalty, "frequency_penalty", -2, 2);
  checkNumber(params.presencePenalty, "presence_penalty", -2, 2);
  checkInteger(params.n, "n", 1, Math.min(limits.nMax, limits.choicesMax));
  checkInteger(params.topK, "top_k", 0, fixedLimits.int32Max);
  checkNumber(params.minP, "min_p", 0, 1);
  checkNumber(params.repetitionPenalty, "repetition_penalty", 0, 2);
  if (params.repetitionPenalty === 0) {
    refuse("decimal_below_min_value", "repetition_penalty", "'repetition_penalty' must be above 0, but is 0.");
  }
  validateStop(params.stop, limits);
  validateLogitBias(params.logitBias);
}

/** Empty stop strings are no stop strings (CHAT-7). */
function validateStop(stop: readonly string[], limits: ServiceLimits): void {
  const texts = stop.filter((text) => text !== "");
  checkCount(texts.length, "stop", limits.stopMax);
  for (const text of texts) {
    checkLength(text, "stop", limits.stopCharsMax);
    if (loneSurrogate.test(text)) {
      refuse("invalid_value", "stop", "'stop' must be well-formed Unicode, but has half of a surrogate pair.");
    }
  }
}

function validateLogitBias(logitBias: { readonly [token: string]: number }): void {
  for (const [token, bias] of Object.entries(logitBias)) {
    if (!tokenId.test(token) || Number(token) > fixedLimits.int32Max) {
      refuse(
        "invalid_value",
        "logit_bias",
        `The keys of 'logit_bias' must be decimal token ids, but one is ${quote(token)}.`,
      );
    }
    if (!(bias >= -100 && bias <= 100)) {
      refuse("invalid_value", "logit_bias", `The values of 'logit_bias' must be from -100 to 100, but one is ${bias}.`);
    }
  }
}
