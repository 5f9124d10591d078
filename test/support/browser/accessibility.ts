import { readFileSync } from "node:fs";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

const axeSource = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
/** In the second colour scheme only the contrast of colours is checked, because nothing else can differ. */
const schemes = [
  { colorScheme: "light", rules: null },
  { colorScheme: "dark", rules: ["color-contrast"] },
] as const;

interface Axe {
  readonly axe: { run(within: ParentNode, options: object): Promise<AxeResults> };
}

/** Serious and critical axe violations on the current page or in its open dialog, in both colour schemes. */
export async function accessibilityFaults(page: Page): Promise<readonly string[]> {
  const faults: string[] = [];
  // The debugger evaluates the script, which bypasses the content security policy.
  await page.evaluate(axeSource);
  for (const { colorScheme, rules } of schemes) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    const { violations } = await page.evaluate(
      (options) => (window as unknown as Axe).axe.run(document.querySelector("dialog[open]") ?? document, options),
      rules === null ? {} : { runOnly: rules },
    );
    for (const { id, impact, nodes } of violations) {
      if (impact !== "serious" && impact !== "critical") continue;
      faults.push(...nodes.map(({ html, failureSummary }) => `${colorScheme}: ${id}: ${html}: ${failureSummary}`));
    }
  }
  return faults;
}
