import { describe, expect, it } from "vitest";
import { csvOf } from "../../../src/dashboard/pages/usage/csv.js";

describe("the CSV export", () => {
  it("quotes texts with separators and doubles quotes", () => {
    expect(csvOf([["a,b", 'say "hi"', "two\r\nlines", 3]])).toBe('"a,b","say ""hi""","two\r\nlines",3\r\n');
  });

  it.each(["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1+1", "＠x"])(
    "writes %j so that a spreadsheet shows it as text and does not run it (SEC-21)",
    (text) => {
      expect(csvOf([[text]]).replaceAll('"', "")).toBe(`'${text}\r\n`);
    },
  );

  it("leaves numbers and harmless text unchanged", () => {
    expect(csvOf([[-5, "a=b"]])).toBe("-5,a=b\r\n");
  });
});
