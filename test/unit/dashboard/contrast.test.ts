import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const css = readFileSync("src/dashboard/ui/tokens.css", "utf8");
const roles = new Map(
  [...css.matchAll(/--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(
    ([, name = "", light = "", dark = ""]) => [name, { light, dark }] as const,
  ),
);

type Scheme = "light" | "dark";

function colour(name: string, scheme: Scheme): string {
  const role = roles.get(name);
  if (role === undefined) throw new Error(`tokens.css defines no colour --${name}`);
  return role[scheme];
}

/** Relative luminance of WCAG 2. */
function luminance(hex: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

const grounds = ["ground", "surface", "hover"];
const texts = ["ink", "faint", "accent", "good", "bad", "busy"];
/** Pairs of a text's colour and its background. */
const readable = [
  ...texts.flatMap((text) => grounds.map((ground) => [text, ground] as const)),
  ["on-accent", "accent"],
  ["ink", "accent-soft"],
  ...["good", "bad", "busy"].flatMap((tone) => [[tone, `${tone}-soft`] as const, ["ink", `${tone}-soft`] as const]),
] as const;

describe.each(["light", "dark"] as const)("the %s colour scheme", (scheme) => {
  const ratio = (one: string, other: string) => contrast(colour(one, scheme), colour(other, scheme));

  it("has a contrast of at least 4.5 between text and its background", () => {
    const faults = readable.filter(([text, ground]) => ratio(text, ground) < 4.5);
    expect(faults.map(([text, ground]) => `${text} on ${ground}: ${ratio(text, ground).toFixed(2)}`)).toEqual([]);
  });

  it("has a contrast of at least 3 between a control's border, the focus and their background", () => {
    for (const ground of grounds) {
      expect([ground, ratio("edge", ground) >= 3]).toEqual([ground, true]);
      expect([ground, ratio("accent", ground) >= 3]).toEqual([ground, true]);
    }
  });
});

describe("the contrast of two colours", () => {
  it("is 21 for black on white and 1 for equal colours", () => {
    expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
    expect(contrast("#3547c8", "#3547c8")).toBe(1);
  });
});
