import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icon.js";

export interface DialogProps {
  readonly title: string;
  /** Called when the dialog is closed by Escape or its close button. */
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

const Hold = createContext<(isHeld: boolean) => void>(() => {});

/** While true, neither Escape nor the close button closes the surrounding dialog, e.g. while it shows a secret once. */
export function useHold(isHeld: boolean): void {
  const hold = useContext(Hold);
  // A layout effect: Escape could be pressed before the next paint.
  useLayoutEffect(() => {
    if (!isHeld) return;
    hold(true);
    return () => hold(false);
  }, [isHeld, hold]);
}

/** A modal dialog: the browser traps the focus in it and restores it on close. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const [isHeld, setHeld] = useState(false);
  const titleId = useId();
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => restoreFocus(before);
  }, []);
  return (
    <dialog
      ref={element}
      aria-labelledby={titleId}
      onCancel={(event) => {
        if (isHeld) event.preventDefault();
      }}
      // Browsers let a page cancel Escape only once: the second press closes the dialog, so open it again.
      onClose={() => (isHeld ? element.current?.showModal() : onClose())}
    >
      <header>
        <h2 id={titleId}>{title}</h2>
        <button
          type="button"
          class="quiet icon-button"
          aria-label="Close"
          disabled={isHeld}
          onClick={() => element.current?.close()}
        >
          <Icon name="close" />
        </button>
      </header>
      <Hold.Provider value={setHeld}>{children}</Hold.Provider>
    </dialog>
  );
}

/** Restores the focus after a dialog was removed without being closed. Waits for its removal: until then the page is inert. */
function restoreFocus(before: Element | null): void {
  queueMicrotask(() => {
    const target = before?.isConnected ? before : document.getElementById("content");
    if (target instanceof HTMLElement && document.activeElement === document.body) target.focus();
  });
}
