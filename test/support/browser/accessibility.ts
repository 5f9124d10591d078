import { readFileSync } from "node:fs";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

const axeSource = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
const schemes = ["light", "dark"] as const;

/** Violations of what axe calls serious or critical on the page as it is now, in both colour schemes; empty: none. */
export async function accessibilityFaults(page: Page): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    // Evaluated by the browser's own debugger, which no content security policy binds.
    await page.evaluate(axeSource);
    const { violations } = await page.evaluate(() =>
      (window as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run(),
    );
    for (const { id, impact, nodes } of violations) {
      if (impact !== "serious" && impact !== "critical") continue;
      faults.push(...nodes.map(({ html, failureSummary }) => `${colorScheme}: ${id}: ${html}: ${failureSummary}`));
    }
  }
  return faults;
}
