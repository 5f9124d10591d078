import type { TokenLogprobInfo } from "../../domain/engine/engine.js";

const said = -0.1;
/** Chosen so that the probabilities of a position stay below 1 together: e^-0.1 + e^-4 + e^-5 + … = 0.934. */
const firstAlternative = -4;

/** The log probability that every token has, with made-up alternatives after the token itself, best first. */
export function tokenLogprob(token: string, alternatives: number): TokenLogprobInfo {
  const top = Array.from({ length: alternatives }, (_, i) =>
    i === 0 ? { token, logprob: said } : { token: `${token}~${i}`, logprob: firstAlternative - (i - 1) },
  );
  return { token, logprob: said, top };
}
