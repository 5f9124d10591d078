import { describe, expect, it } from "vitest";
import { UsageError } from "../../../../src/app/command-line/cli-io.js";
import { parseExpiry } from "../../../../src/app/command-line/cli-values.js";

const now = new Date("2026-06-01T12:00:00Z");

describe("parseExpiry", () => {
  it("adds a duration to the current time", () => {
    expect(parseExpiry("90s", now).toISOString()).toBe("2026-06-01T12:01:30.000Z");
    expect(parseExpiry("12h", now).toISOString()).toBe("2026-06-02T00:00:00.000Z");
    expect(parseExpiry("30d", now).toISOString()).toBe("2026-07-01T12:00:00.000Z");
  });

  it("accepts a date in UTC, or a time with its zone", () => {
    expect(parseExpiry("2027-01-31", now).toISOString()).toBe("2027-01-31T00:00:00.000Z");
    expect(parseExpiry("2027-01-31T10:00:00+02:00", now).toISOString()).toBe("2027-01-31T08:00:00.000Z");
  });

  it("rejects the past, and text that is neither a duration nor a date", () => {
    for (const text of ["0s", "2026-01-01", "soon", "30", "31.1.2027", "2027-01-31T10:00", "2027-13-01"]) {
      expect(() => parseExpiry(text, now), text).toThrow(UsageError);
    }
  });
});
