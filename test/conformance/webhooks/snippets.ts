import { readFileSync } from "node:fs";

const page = readFileSync("docs/webhooks.md", "utf8");

/** The code in `docs/webhooks.md` under a heading of the third level. */
export function snippetUnder(heading: string): string {
  const [, section] = page.split(`\n### ${heading}\n`);
  const [, code] = /^```[a-z]+\n([\s\S]*?)^```$/m.exec(section ?? "") ?? [];
  if (code === undefined) throw new Error(`docs/webhooks.md has no code under "### ${heading}"`);
  return code;
}

/** The receiver of `docs/webhooks.md` that uses the package. */
export function receiverSnippet(): string {
  const [, code] = /^```js receiver\n([\s\S]*?)^```$/m.exec(page) ?? [];
  if (code === undefined) throw new Error("docs/webhooks.md has no receiver");
  return code;
}

/** Every JSON text of the page, parsed. */
export function jsonExamples(): readonly { readonly type: string }[] {
  return [...page.matchAll(/^```json\n([\s\S]*?)^```$/gm)].map(([, text]) => JSON.parse(text ?? ""));
}
