import type { Page } from "playwright-core";

const stepsMax = 500;

/** What can be clicked or filled in on the page as it is now, and is not reached by the tabulator; empty: nothing. */
export async function unreachableByKeyboard(page: Page): Promise<readonly string[]> {
  await page.evaluate(() => {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  });
  for (let step = 0; step < stepsMax; step++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(markFocused)) break;
  }
  return page.evaluate(unmarked);
}

/** Runs in the page. True when the way begins anew: one control may be several stops, but is left only once. */
function markFocused(): boolean {
  const holder = window as unknown as { marks?: Element[] };
  const marks = holder.marks ?? [];
  holder.marks = marks;
  const focused = document.activeElement ?? document.body;
  const isAgain = marks.includes(focused) && marks.at(-1) !== focused;
  if (focused !== document.body && !isAgain) marks.push(focused);
  return isAgain;
}

/** Runs in the page. Of radio buttons one is a stop and the arrows lead on; under a window nothing can be reached. */
function unmarked(): string[] {
  const holder = window as unknown as { marks?: Element[] };
  const { marks = [] } = holder;
  delete holder.marks;
  const top = document.querySelector("dialog[open]") ?? document;
  return [...top.querySelectorAll<HTMLElement>("a[href], button, input, select, textarea, summary")]
    .filter((element) => element.checkVisibility() && !element.matches(":disabled, [type=radio]"))
    .filter((element) => !marks.includes(element))
    .map((element) => element.outerHTML.slice(0, 200));
}
