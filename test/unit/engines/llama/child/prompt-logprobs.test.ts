import { describe, expect, it } from "vitest";
import type { GenEvent, TokenLogprobInfo } from "../../../../../src/domain/engine/engine.js";
import type { NativeSequence } from "../../../../../src/engines/llama/child/native-model.js";
import { echoWithLogprobs, scoredTokensMax } from "../../../../../src/engines/llama/child/prompt-logprobs.js";
import { PrefillPace, StepBatcher } from "../../../../../src/engines/llama/child/steps.js";

/** Text of tokens by id; lists of bytes are parts of a character. */
const spellings: readonly (string | readonly number[])[] = ["<s>", " the", " of", [0xe6, 0x97], [0xa5], "🙂", "!"];
const hidden = new Set([0]);

const spelling = {
  spell(token: number) {
    const spelled = spellings[token] ?? "?";
    return typeof spelled === "string" ? { token: spelled } : { token: `bytes:${token}`, bytes: spelled };
  },
};

/** A sequence in which the log probability of a token is minus its id, and minus infinity for the id 0. */
class CountingSequence implements Pick<NativeSequence, "score"> {
  readonly evaluated: number[][] = [];

  async score(tokens: readonly number[], next: readonly number[], top: number) {
    this.evaluated.push([...tokens]);
    return next.map((token) => ({
      logprob: token === 0 ? Number.NEGATIVE_INFINITY : -token,
      top: Array.from({ length: top }, (_, i) => [i + 1, -i] as const),
    }));
  }
}

async function echo(
  tokens: readonly number[],
  text: string,
  { alternatives = 1, check = () => {} } = {},
): Promise<{ events: readonly TextEvent[]; logprobs: readonly TokenLogprobInfo[]; evaluated: number[][] }> {
  const sequence = new CountingSequence();
  const events: TextEvent[] = [];
  const pace = new PrefillPace(4, 2);
  const deps = { model: { vocabulary: { hidden } }, spelling, batcher: new StepBatcher(), scoringPace: pace };
  await echoWithLogprobs(sequence, { tokens, text, alternatives }, deps, check, (event) => {
    if (event.type === "text") events.push(event);
  });
  return { events, logprobs: events.flatMap((event) => event.logprobs ?? []), evaluated: sequence.evaluated };
}

type TextEvent = Extract<GenEvent, { type: "text" }>;

describe("an echoed prompt with log probabilities", () => {
  it("is evaluated except for its last token, each token once, in steps of bounded size (E-7)", async () => {
    const tokens = Array.from({ length: 50 }, (_, i) => 1 + (i % 6));
    const { evaluated, logprobs } = await echo(tokens, "");
    expect(evaluated.flat()).toEqual(tokens.slice(0, -1));
    expect(Math.max(...evaluated.map(({ length }) => length))).toBeLessThanOrEqual(4);
    expect(logprobs.slice(1).map(({ logprob }) => logprob)).toEqual(tokens.slice(1).map((token) => -token));
    expect(scoredTokensMax).toBeLessThanOrEqual(64);
  });

  it("has NaN for the first token, and -9999 for a token with probability 0 (E-7, RESP-9)", async () => {
    const { logprobs } = await echo([1, 0, 2], " the of", { alternatives: 2 });
    expect(logprobs.map(({ logprob }) => logprob)).toEqual([Number.NaN, -9999, -2]);
    expect(logprobs.map(({ top }) => top.map(({ token }) => token))).toEqual([[], [" the", " of"], [" the", " of"]]);
  });

  it("is one event without an evaluation if it has only one token (E-7)", async () => {
    const { events, evaluated } = await echo([6], "!");
    expect(events).toEqual([
      { type: "text", choice: 0, text: "!", outTokens: 0, logprobs: [{ token: "!", logprob: Number.NaN, top: [] }] },
    ]);
    expect(evaluated).toEqual([]);
  });

  it("is the unchanged text, divided among its tokens and in whole characters (E-7)", async () => {
    const text = "the of日🙂! of日!";
    const tokens = [0, 1, 2, 3, 4, 5, 6, 2, 3, 4, 6];
    const { events, logprobs } = await echo(tokens, text);
    expect(events.map((event) => event.text).join("")).toBe(text);
    expect(events.map((event) => event.text).join("|")).not.toContain("\ufffd");
    // Neither the token that begins a text nor the space that the vocabulary adds is in the echoed text.
    expect(logprobs.slice(0, 3).map(({ bytes }) => bytes)).toEqual([[], [...Buffer.from("the")], undefined]);
    expect(events.length).toBeGreaterThan(2);
    expect(events.every(({ outTokens }) => outTokens === 0)).toBe(true);
  });

  it("is the unchanged text even if its tokens spell another text (E-7)", async () => {
    for (const text of ["", "x", "something much longer than all of its tokens"]) {
      const { events } = await echo([0, 1, 2, 6, 6, 6], text);
      expect(events.map((event) => event.text).join("")).toBe(text);
    }
  });

  it("is no longer evaluated after the current step when its call is aborted (E-7)", async () => {
    let steps = 0;
    const check = (): void => {
      if (++steps > 2) throw new Error("aborted");
    };
    const tokens = Array.from({ length: 50 }, () => 1);
    await expect(echo(tokens, "", { check })).rejects.toThrow("aborted");
    expect(steps).toBe(3);
  });
});
