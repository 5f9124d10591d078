import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { faultOf, wordsOfLine } from "../../support/command-line.js";
import { pages } from "./links.js";

/** Command lines in a page's code blocks, and inline ones with options; not syntax descriptions like `rm ID [--all]`. */
function shellLines(markdown: string): readonly string[] {
  const blocks = [...markdown.matchAll(/^ *```(?:sh\b.*|console|)\n([\s\S]*?)^ *```$/gm)].map(([, code]) =>
    String(code),
  );
  const lines = blocks.flatMap((code) => code.replaceAll("\\\n", " ").split("\n"));
  const prose = markdown.replaceAll(/^ *```[\s\S]*?^ *```$/gm, "");
  const inline = [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code]) => String(code));
  return [...lines, ...inline.filter((code) => / --[a-z]/.test(code))];
}

async function refusedLines(markdown: string): Promise<readonly string[]> {
  const refused: string[] = [];
  for (const line of shellLines(markdown)) {
    const words = wordsOfLine(line);
    const fault = words === null ? null : await faultOf(words);
    if (fault !== null) refused.push(`${line.trim()}: ${fault}`);
  }
  return refused;
}

describe.each(pages)("%s", (page) => {
  it("shows only command lines that the program accepts", async () => {
    expect(await refusedLines(readFileSync(page, "utf8"))).toEqual([]);
  });
});

describe("the check of command lines", () => {
  it("finds the command lines of README", () => {
    const lines = shellLines(readFileSync("README.md", "utf8")).filter((line) => wordsOfLine(line) !== null);
    expect(lines.length).toBeGreaterThan(10);
  });

  it("finds command lines that the program rejects", async () => {
    const page = `\`\`\`sh
uis wish
UIS_URL=http://127.0.0.1:1 npx uis keys create --name a --scope writ | head   # no such scope
uis keys create --name a
uis keys
uis keys list | head
npm start -- --port http
uis models pull
\`\`\`
and \`uis usage --form 2026-01-01\`, \`uis usage --by day\``;
    expect((await refusedLines(page)).map((line) => line.split(":")[0]?.trim())).toEqual([
      "uis wish",
      "UIS_URL=http",
      "uis keys create --name a",
      "uis keys",
      "npm start -- --port http",
      "uis models pull",
      "uis usage --form 2026-01-01",
    ]);
  });
});
