let following: MutationObserver | null = null;

/**
 * Once `element` is taken off the page and the focus with it, the focus goes to the heading of the section that it stood
 * in, or to the content of the page: whoever has no mouse would begin at the top again. One element at a time.
 */
export function followFocus(element: Element | null): void {
  following?.disconnect();
  following = null;
  if (element === null) return;
  const section = element.closest("section");
  const observer = new MutationObserver(() => {
    if (element.isConnected) return;
    observer.disconnect();
    if (document.activeElement === document.body) focusOn(headingOf(section) ?? document.getElementById("content"));
  });
  observer.observe(document.body, { childList: true, subtree: true });
  following = observer;
}

function headingOf(section: Element | null): HTMLElement | null {
  return section?.isConnected ? section.querySelector("h2") : null;
}

function focusOn(target: HTMLElement | null): void {
  if (target === null) return;
  target.tabIndex = -1;
  target.focus();
}
