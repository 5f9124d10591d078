import type { Page } from "playwright-core";
import { byTier } from "../tier.js";

const folder = "test-results/pictures";
/** Of a long list the first rows say it all. */
const sizes = [
  { width: 1280, height: 800, heightMax: 800 },
  { width: 360, height: 740, heightMax: 1_200 },
] as const;
const schemes = ["light", "dark"] as const;

/** Pictures of what a walk comes by, in the long tier: those of every page are taken always. */
export async function takePictures(page: Page, name: string): Promise<void> {
  if (byTier({ ci: false, long: true })) await takePagePictures(page, name);
}

/** Writes pictures of the page as it is now, for people to look at: wide and narrow, light and dark. Then it is as wide as before. */
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
