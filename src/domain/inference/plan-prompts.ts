import type { Capabilities } from "../engine/engine.js";
import type { GenerateBase } from "../engine/generate-base.js";
import type { Prompt } from "./generation.js";

/**
 * Turns the prompts of a request into engine runs. Choices are numbered prompt-major (CMPL-3). An engine that cannot
 * make several choices of a prompt runs it several times, with seeds that differ by a fixed step, and the prompt counts
 * once (CHAT-3, CMPL-13).
 */
export function planPrompts(requests: readonly GenerateBase[], caps: Capabilities): readonly Prompt[] {
  const prompts: Prompt[] = [];
  let base = 0;
  for (const request of requests) {
    if (request.n === 1 || caps.nativeN) prompts.push({ base, request, countsPrompt: true });
    else
      for (let k = 0; k < request.n; k++)
        prompts.push({ base: base + k, request: oneChoice(request, k), countsPrompt: k === 0 });
    base += request.n;
  }
  return prompts;
}

function oneChoice(request: GenerateBase, k: number): GenerateBase {
  return {
    ...request,
    n: 1,
    ...(request.seed === undefined ? {} : { seed: BigInt.asIntN(64, request.seed + BigInt(k)) }),
  };
}
