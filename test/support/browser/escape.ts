import type { Page } from "playwright-core";

/** Twice, because browsers let a page refuse to close a window only once in a row. */
export async function pressEscapeTwice(page: Page): Promise<void> {
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
}
