import type { Page } from "playwright-core";

export interface HeldAnswers {
  /** Releases the held answers and all later ones. */
  release(): void;
}

/** Lets the service handle the requests to these URLs, and holds its answers back. */
export async function holdAnswers(page: Page, addresses: string): Promise<HeldAnswers> {
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route(addresses, async (route) => {
    const response = await route.fetch();
    await released;
    await route.fulfill({ response });
  });
  return { release };
}
