import type { Page } from "playwright-core";

/** Presses Escape twice, because browsers let a page cancel closing a dialog only once in a row. */
export async function pressEscapeTwice(page: Page): Promise<void> {
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
}
