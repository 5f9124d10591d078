import { describe, expect, it } from "vitest";
import { formatSize, parseSize } from "../../../../src/app/config/setting-types.js";

describe("sizes in settings", () => {
  it("are read with binary units", () => {
    expect(["0KiB", "64KiB", "20MiB", "1GiB"].map(parseSize)).toEqual([0, 65_536, 20_971_520, 1_073_741_824]);
  });

  it("are rejected with other units, fractions or spaces", () => {
    for (const text of ["1", "1kB", "1MB", "1.5MiB", "1 MiB", "-1KiB"]) expect(parseSize(text)).toBeNull();
  });

  it("are written with the largest unit that keeps the number whole", () => {
    expect([65_536, 20_971_520, 1_073_741_824, 1000, 0].map(formatSize)).toEqual(["64KiB", "20MiB", "1GiB", 1000, 0]);
  });
});
