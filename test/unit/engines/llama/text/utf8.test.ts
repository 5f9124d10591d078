import { isUtf8 } from "node:buffer";
import { describe, expect, it } from "vitest";
import { utf8After, utf8Insides } from "../../../../../src/engines/llama/child/token-spelling.js";

const isWhole = (bytes: readonly number[]): boolean => isUtf8(Uint8Array.from(bytes));

/** Bytes of which one sequence completes each incomplete code point. */
const endings = [0x80, 0x90, 0xa0].flatMap((second) => [[second], [second, 0x80], [second, 0x80, 0x80]]);

/** The state of the bytes according to the platform's decoder. */
function judged(bytes: readonly number[]): "whole" | "begun" | "bad" {
  if (isWhole(bytes)) return "whole";
  return endings.some((ending) => isWhole([...bytes, ...ending])) ? "begun" : "bad";
}

function told(bytes: readonly number[]): "whole" | "begun" | "bad" {
  const state = utf8After("whole", bytes);
  if (state === null) return "bad";
  return state === "whole" ? "whole" : "begun";
}

describe("utf8After", () => {
  it("agrees with the platform on all pairs of bytes, and on bytes after leads of longer code points", () => {
    const all = Array.from({ length: 256 }, (_, byte) => byte);
    const texts = all.flatMap((first) => [[first], ...all.map((second) => [first, second])]);
    for (const lead of [0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf4]) {
      for (const second of all) {
        for (const third of [0x7f, 0x80, 0xbf, 0xc0]) texts.push([lead, second, third], [lead, second, third, 0x80]);
      }
    }
    expect(texts.filter((text) => told(text) !== judged(text))).toEqual([]);
  });

  it("continues from the state that earlier bytes left", () => {
    for (const text of ["é", "日", "\ud7ff", "🙂", "\u{10ffff}", "\u0800"]) {
      const bytes = [...Buffer.from(text)];
      for (let cut = 1; cut < bytes.length; cut++) {
        const state = utf8After("whole", bytes.slice(0, cut));
        expect(utf8Insides).toContain(state);
        expect(utf8After(state ?? "whole", bytes.slice(cut))).toBe("whole");
        expect(utf8After(state ?? "whole", [0x41])).toBeNull();
      }
    }
  });
});
