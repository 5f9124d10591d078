import type { Locator } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasChromium } from "../support/browser/chromium.js";
import { noComplaints } from "../support/browser/complaints.js";
import { type DashboardRun, startDashboard, type Visit } from "../support/browser/dashboard.js";
import { type CopiedLanguage, runCopied } from "../support/browser/run-copied.js";
import { byTier } from "../support/tier.js";

const models = [
  { id: "echo", engine: "scripted" },
  { id: "embed", engine: "scripted", scripted: { dimensions: 8 } },
];
const awkward = `It's "$HOME" \`id\` \\n, true?`;

/** The long tier adds Python, whose packages need a virtual environment. */
const languages = byTier<readonly CopiedLanguage[]>({
  ci: ["curl", "gRPC (buf curl)", "TypeScript"],
  long: ["curl", "gRPC (buf curl)", "TypeScript", "Python"],
});

/** Languages for the APIs other than chat completions. */
const apiLanguages = byTier<readonly CopiedLanguage[]>({
  ci: ["curl"],
  long: ["curl", "TypeScript", "Python"],
}).flatMap((language) => (["Responses", "Messages"] as const).map((api) => [api, language] as const));

let dashboard: DashboardRun;
let visit: Visit;

/** Shows the code in this language. */
async function open(language: CopiedLanguage): Promise<Locator> {
  const { page } = visit;
  const code = page.locator("details", { has: page.getByText("Copy as code") });
  if ((await code.getAttribute("open")) === null) await page.getByText("Copy as code").click();
  await page.getByLabel("Language").selectOption(language);
  return code;
}

async function copy(language: CopiedLanguage): Promise<string> {
  const { page } = visit;
  const code = await open(language);
  const button = code.getByRole("button", { name: /^Cop(y|ied)$/ });
  await button.click();
  await expect
    .poll(() => page.evaluate(() => navigator.clipboard.readText()))
    .toBe(await code.locator("pre").innerText());
  return page.evaluate(() => navigator.clipboard.readText());
}

/** The concatenated text of a streamed answer in any output format. */
const joined = (printed: string): string =>
  [...printed.matchAll(/"(?:content|text|delta)":\s*("(?:[^"\\]|\\.)*")/g)]
    .map(([, json = '""']) => JSON.parse(json))
    .join("");

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("code copied from the playground", () => {
  beforeAll(async () => {
    dashboard = await startDashboard({ config: { models } });
    visit = await dashboard.visitSignedIn({ permissions: ["clipboard-read", "clipboard-write"] });
  });
  afterAll(() => dashboard?.close());

  const run = async (language: CopiedLanguage) => runCopied(language, await copy(language), dashboard.service.key);

  it.for(languages)("repeats a chat request: %s", async (language) => {
    await visit.go("playground?model=echo");
    await visit.page.getByLabel("Message").fill(awkward);
    const printed = await run(language);
    expect(language === "TypeScript" || language === "Python" ? printed : joined(printed)).toContain(awkward);
    expect(visit.complaints).toEqual(noComplaints);
  });

  it.for(apiLanguages)("repeats a chat request as %s: %s", async ([api, language]) => {
    await visit.go("playground?model=echo");
    await visit.page.getByLabel("Message").fill(awkward);
    await open(language);
    await visit.page.getByLabel("API", { exact: true }).selectOption(api);
    const printed = await run(language);
    expect(language === "curl" ? joined(printed) : printed).toContain(awkward);
    expect(visit.complaints).toEqual(noComplaints);
  });

  it.each(["curl", "gRPC (buf curl)"] as const)("repeats a completion request: %s", async (language) => {
    await visit.go("playground?model=echo&mode=completions");
    await visit.page.getByLabel("Prompt").fill(awkward);
    expect(joined(await run(language))).toContain(awkward);
  });

  it.each(["curl", "gRPC (buf curl)"] as const)("repeats an embedding request: %s", async (language) => {
    await visit.go("playground?model=embed&mode=embeddings");
    await visit.page.getByLabel("Input").fill("one\ntwo");
    const answer = JSON.parse(await run(language)) as { embeddings?: { data: unknown[] }; data?: unknown[] };
    expect(answer.embeddings?.data ?? answer.data).toHaveLength(2);
  });
});
