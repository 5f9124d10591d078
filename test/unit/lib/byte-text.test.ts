import { describe, expect, it } from "vitest";
import { byteText } from "../../../src/lib/byte-text.js";

describe("byteText", () => {
  it.each([
    [0, "0 bytes"],
    [999, "999 bytes"],
    [1_000, "1.0 kB"],
    [98_362_432, "98.4 MB"],
    [639_446_688, "639 MB"],
    [5_000_000_000, "5.0 GB"],
    [7_200_000_000_000_000, "7200 TB"],
  ])("%d is %s", (bytes, text) => {
    expect(byteText(bytes)).toBe(text);
  });
});
