import { readFileSync } from "node:fs";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

const axeSource = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
/** Of the other scheme only the colours differ. */
const schemes = [
  { colorScheme: "light", rules: null },
  { colorScheme: "dark", rules: ["color-contrast"] },
] as const;

interface Axe {
  readonly axe: { run(within: ParentNode, options: object): Promise<AxeResults> };
}

/**
 * Violations of what axe calls serious or critical on the page as it is now, or in its open window, in both colour schemes;
 * empty: none.
 */
export async function accessibilityFaults(page: Page): Promise<readonly string[]> {
  const faults: string[] = [];
  // Evaluated by the browser's own debugger, which no content security policy binds.
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
