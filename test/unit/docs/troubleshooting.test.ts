import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { errors } from "../../../src/contract/errors.js";
import { isReal } from "./names-in-text.js";

const page = readFileSync("docs/troubleshooting.md", "utf8");
const sections = page.split(/^##+ /m).filter((section) => section.includes("- **Cause**"));

/** Texts of at least three words in quotation marks: messages of the service. */
function messagesIn(markdown: string): readonly string[] {
  const prose = markdown.replaceAll(/`[^`\n]*`/g, "");
  return [...prose.matchAll(/"([a-z][^"\n]* [^"\n]* [^"\n]*)"/g)].map(([, message]) => String(message));
}

describe("docs/troubleshooting.md", () => {
  it("has one remedy for every error code, in the order of docs/errors.md", () => {
    const [, table = ""] = page.split("## Error codes\n");
    expect([...table.matchAll(/^\| `(\w+)` \| .{20,} \|$/gm)].map(([, code]) => code)).toEqual(Object.keys(errors));
  });

  it("has a cause and a fix in every section", () => {
    expect(sections.length).toBeGreaterThan(20);
    const form = /^.+\n\n- \*\*Cause\*\*: [\s\S]{30,}\n- \*\*Fix\*\*: [\s\S]{20,}$/;
    expect(sections.filter((section) => !form.test(section))).toEqual([]);
  });

  it.each(["docs/troubleshooting.md", "docs/alerts.md"])("%s quotes only messages that the service has", (file) => {
    const messages = messagesIn(readFileSync(file, "utf8"));
    expect(messages.length).toBeGreaterThan(3);
    expect(messages.filter((message) => !isReal(message))).toEqual([]);
  });

  it("is linked from the page of errors", () => {
    expect(readFileSync("docs/errors.md", "utf8")).toContain("(troubleshooting.md#error-codes)");
  });
});
