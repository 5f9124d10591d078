import type { Page } from "playwright-core";

const folder = "test-results/pictures";
const widths = [1280, 360] as const;
const schemes = ["light", "dark"] as const;

/** Writes pictures of the page as it is now, for people to look at: wide and narrow, light and dark. Then it is as wide as before. */
export async function takePictures(page: Page, name: string): Promise<void> {
  const before = page.viewportSize();
  for (const width of widths) {
    await page.setViewportSize({ width, height: width === 360 ? 740 : 800 });
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.screenshot({ path: `${folder}/${name}-${width}-${colorScheme}.png`, fullPage: true });
    }
  }
  if (before !== null) await page.setViewportSize(before);
}
