import { describe, expect, it } from "vitest";
import { needsInstalled, skipWithoutProgram } from "../../support/missing-program.js";

type Result = Parameters<typeof skipWithoutProgram>[0]["result"];

function resultAfter(error: Error): Result {
  const result: Result = { state: "fail", errors: [{ name: error.name, message: error.message }] };
  skipWithoutProgram({ result });
  return result;
}

function failureOf(run: () => void): Error {
  try {
    run();
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error("it did not fail");
}

describe("a test whose program is not installed", () => {
  it("is skipped, and the note names the program", () => {
    const missing = failureOf(() => needsInstalled("program-that-nobody-has"));
    expect(resultAfter(missing)).toEqual({ state: "skip", note: "program-that-nobody-has is not installed" });
  });

  it("still fails for any other reason", () => {
    expect(resultAfter(new Error("broken"))).toMatchObject({ state: "fail", errors: [{ message: "broken" }] });
    expect(() => needsInstalled(process.execPath)).not.toThrow();
  });
});
