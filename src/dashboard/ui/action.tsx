import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog.js";
import { Problem } from "./feedback.js";

/** Runs an async action, one run at a time, and keeps its error. */
export function useAction(run: () => Promise<void>) {
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const start = async (): Promise<void> => {
    setRunning(true);
    setError(null);
    try {
      await run();
    } catch (thrown) {
      setError(thrown instanceof Error ? thrown : new Error(String(thrown)));
    } finally {
      setRunning(false);
    }
  };
  return { isRunning, error, start: () => void start() };
}

export interface ConfirmProps {
  readonly title: string;
  /** The consequences, and whether the action can be undone. */
  readonly children: ComponentChildren;
  /** Label of the confirming button: “Revoke”, “Delete”. */
  readonly verb: string;
  readonly run: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks for confirmation before a destructive action. */
export function Confirm({ title, children, verb, run, onClose }: ConfirmProps) {
  // Taken before the dialog gets the focus. The button may be gone after the page reloads its data.
  const [opener] = useState(() => document.activeElement);
  const { isRunning, error, start } = useAction(async () => {
    await run();
    restoreFocus(opener);
    onClose();
  });
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="stack">{children}</div>
      <Problem error={error} />
      <footer>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="danger" disabled={isRunning} onClick={start}>
          {verb}
        </button>
      </footer>
    </Dialog>
  );
}

let following: MutationObserver | null = null;

/**
 * When `element` is removed while it has the focus, moves the focus to its section's heading or the page's content, so that
 * keyboard users do not start at the top of the document again. Follows one element at a time.
 */
function restoreFocus(element: Element | null): void {
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
