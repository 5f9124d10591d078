import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog.js";
import { Problem } from "./feedback.js";
import { followFocus } from "./focus.js";

/** Runs something once at a time, and keeps why it failed. */
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
  /** What follows, and whether it can be undone. */
  readonly children: ComponentChildren;
  /** The verb of the button: “Revoke”, “Delete”. */
  readonly verb: string;
  readonly run: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, children, verb, run, onClose }: ConfirmProps) {
  // As long as it is asked, the focus is in the window. What led here may be gone when the page has read again.
  const [opener] = useState(() => document.activeElement);
  const { isRunning, error, start } = useAction(async () => {
    await run();
    followFocus(opener);
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
