import { mkdirSync, writeFileSync } from "node:fs";
import type { Page } from "playwright-core";

/** Milliseconds from the navigation of a window without a cache until the page responds to input. */
export interface InteractiveTimes {
  /** Time until the sign-in form contains a typed password. */
  readonly signInMs: number;
  /** Time until a click in the navigation of the overview has shown another page. */
  readonly navigationMs: number;
}

/** `signedOut` and `signedIn` are new windows; `url` is that of the overview. */
export async function measureInteractive(signedOut: Page, signedIn: Page, url: string): Promise<InteractiveTimes> {
  return {
    signInMs: await msUntil(signedOut, url, async () => {
      const field = signedOut.getByLabel("Administrator password");
      await field.fill("typed");
      if ((await field.inputValue()) !== "typed") throw new Error("the form did not take the password");
    }),
    navigationMs: await msUntil(signedIn, url, async () => {
      await signedIn.getByRole("navigation").getByRole("link", { name: "Models" }).click();
      await signedIn.getByRole("heading", { level: 1, name: "Models" }).waitFor();
    }),
  };
}

async function msUntil(page: Page, url: string, answer: () => Promise<void>): Promise<number> {
  const beganAtMs = performance.now();
  await page.goto(url, { waitUntil: "commit" });
  await answer();
  return Math.round(performance.now() - beganAtMs);
}

/** The longer time of the best round: other tests may slow a round down. */
export function bestOf(rounds: readonly InteractiveTimes[]): number {
  return Math.min(...rounds.map(({ signInMs, navigationMs }) => Math.max(signInMs, navigationMs)));
}

/** Writes the times of each round to `test-results/figures/dashboard-interactive-NAME.json`. */
export function writeInteractive(name: string, rounds: readonly InteractiveTimes[]): void {
  mkdirSync("test-results/figures", { recursive: true });
  const text = `${JSON.stringify(rounds, null, 2)}\n`;
  writeFileSync(`test-results/figures/dashboard-interactive-${name}.json`, text);
}
