import type { Page } from "playwright-core";

export interface HeldAnswers {
  /** Lets them through, and all that follow. */
  release(): void;
}

/** Lets the service do what the page asks of these addresses, and keeps its answers from the page. */
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
