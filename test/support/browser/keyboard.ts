import type { Page } from "playwright-core";

const stepsMax = 500;

/**
 * Keyboard problems on the current page: controls that Tab does not reach, that show no focus, or that are reached outside
 * of an open dialog. Empty if there are none.
 */
export async function keyboardFaults(page: Page): Promise<readonly string[]> {
  await page.evaluate(() => {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  });
  for (let step = 0; step < stepsMax; step++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(markFocused)) break;
  }
  return page.evaluate(faultsOfMarks);
}

/** Runs in the page and marks the focused control. Returns true when the tab order starts again. */
function markFocused(): boolean {
  const holder = window as unknown as { marks?: Map<Element, boolean>; lastMark?: Element };
  const marks = holder.marks ?? new Map<Element, boolean>();
  holder.marks = marks;
  const focused = document.activeElement ?? document.body;
  const isAgain = marks.has(focused) && holder.lastMark !== focused;
  holder.lastMark = focused;
  if (focused === document.body) return isAgain;
  const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(focused);
  const isShown = (outlineStyle !== "none" && Number.parseFloat(outlineWidth) >= 1) || boxShadow !== "none";
  marks.set(focused, (marks.get(focused) ?? false) || isShown);
  return isAgain;
}

/** Runs in the page and lists the faults. A radio group is one tab stop; with an open dialog, only it is reachable. */
function faultsOfMarks(): string[] {
  const holder = window as unknown as { marks?: Map<Element, boolean>; lastMark?: Element };
  const { marks = new Map<Element, boolean>() } = holder;
  delete holder.marks;
  delete holder.lastMark;
  const top = document.querySelector("dialog[open]") ?? document;
  const told = (fault: string, elements: readonly Element[]) =>
    elements.map((element) => `${fault}: ${element.outerHTML.slice(0, 200)}`);
  const controls = [...top.querySelectorAll<HTMLElement>("a[href], button, input, select, textarea, summary")].filter(
    (element) => element.checkVisibility() && !element.matches(":disabled, [type=radio]"),
  );
  const reached = [...marks.keys()];
  return [
    ...told(
      "not reached",
      controls.filter((element) => !marks.has(element)),
    ),
    ...told(
      "focus not seen",
      reached.filter((element) => marks.get(element) === false),
    ),
    ...told(
      "outside of the window",
      reached.filter((element) => !top.contains(element)),
    ),
  ];
}
