import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { StopSequences } from "../../../../src/domain/inference/stop-sequences.js";

/** The text that StopSequences emits for a text that arrives in these pieces. */
function shown(stops: readonly string[], pieces: readonly string[]): string {
  const sequences = new StopSequences(stops);
  let out = "";
  for (const piece of pieces) {
    const { emit, stopped } = sequences.push(piece);
    out += emit;
    if (stopped) return out;
  }
  return out + sequences.flush();
}

/** Reference implementation: the match that completes first, and among those the one that begins first. */
function beforeFirstMatch(stops: readonly string[], text: string): string {
  for (let end = 1; end <= text.length; end++) {
    const matched = stops.filter((stop) => text.slice(0, end).endsWith(stop)).map((stop) => stop.length);
    if (matched.length > 0) return text.slice(0, end - Math.max(...matched));
  }
  return text;
}

/** Few letters, so that stop strings overlap with themselves and each other. */
const letters = fc.string({ unit: fc.constantFrom("a", "b", "🙂"), minLength: 0, maxLength: 40 });
const stopStrings = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "🙂"), minLength: 1, maxLength: 5 }), {
  minLength: 1,
  maxLength: 4,
});

describe("StopSequences", () => {
  it("emits the text up to the first match, however it is split (CHAT-8)", () => {
    fc.assert(
      fc.property(stopStrings, fc.array(letters, { maxLength: 8 }), (stops, pieces) => {
        expect(shown(stops, pieces)).toBe(beforeFirstMatch(stops, pieces.join("")));
      }),
      { numRuns: 2_000 },
    );
  });

  it("never emits a stop string, not even across pieces (CHAT-8)", () => {
    fc.assert(
      fc.property(stopStrings, fc.array(letters, { maxLength: 8 }), (stops, pieces) => {
        const out = shown(stops, pieces);
        expect(stops.filter((stop) => out.includes(stop))).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });

  it("holds back only text that could be the beginning of a stop string (CHAT-8)", () => {
    const sequences = new StopSequences(["END"]);
    expect(sequences.push("the E")).toEqual({ emit: "the ", stopped: false });
    expect(sequences.push("N")).toEqual({ emit: "", stopped: false });
    expect(sequences.push("T")).toEqual({ emit: "ENT", stopped: false });
    expect(sequences.found).toBeNull();
    expect(sequences.push(" END and more")).toEqual({ emit: " ", stopped: true });
    expect(sequences.push("more")).toEqual({ emit: "", stopped: true });
    expect(sequences.found).toBe("END");
  });

  it("returns held-back text when the text ends without a match (CHAT-8)", () => {
    const sequences = new StopSequences(["END"]);
    sequences.push("EN");
    expect(sequences.flush()).toBe("EN");
    expect(sequences.flush()).toBe("");
  });
});
