import type { Page } from "playwright-core";
import { byTier } from "../tier.js";

const folder = "test-results/pictures";
/** Sizes of the window, and the largest height of a screenshot: the first rows of a long list are enough. */
const sizes = [
  { width: 1280, height: 800, heightMax: 800 },
  { width: 390, height: 844, heightMax: 1_400 },
] as const;
const schemes = ["light", "dark"] as const;

/** Takes screenshots in the long tier only. */
export async function takePictures(page: Page, name: string): Promise<void> {
  if (byTier({ ci: false, long: true })) await takePagePictures(page, name);
}

/** Takes screenshots of the current page, wide and narrow, light and dark, and restores the window size. */
export async function takePagePictures(page: Page, name: string): Promise<void> {
  const before = page.viewportSize();
  for (const { width, height, heightMax } of sizes) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      const whole = await page.evaluate(() => document.documentElement.scrollHeight);
      const clip = { x: 0, y: 0, width, height: Math.min(whole, heightMax) };
      await page.screenshot({ path: `${folder}/${name}-${width}-${colorScheme}.png`, fullPage: true, clip });
    }
  }
  if (before !== null) await page.setViewportSize(before);
}
