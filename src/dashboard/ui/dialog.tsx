import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface DialogProps {
  readonly title: string;
  /** Called when it is closed by Escape or its button. */
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

const Hold = createContext<(isHeld: boolean) => void>(() => {});

/** While true, neither Escape nor the corner closes the window that this is in: what it shows is shown nowhere else. */
export function useHold(isHeld: boolean): void {
  const hold = useContext(Hold);
  // Not after the next painting: Escape could come before it.
  useLayoutEffect(() => {
    if (!isHeld) return;
    hold(true);
    return () => hold(false);
  }, [isHeld, hold]);
}

/** A modal window: the browser keeps the focus in it and gives it back. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const [isHeld, setHeld] = useState(false);
  const titleId = useId();
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => giveFocusBack(before);
  }, []);
  return (
    <dialog
      ref={element}
      aria-labelledby={titleId}
      onCancel={(event) => {
        if (isHeld) event.preventDefault();
      }}
      // Browsers let a page refuse Escape only once: the second one closes the window whatever it says.
      onClose={() => (isHeld ? element.current?.showModal() : onClose())}
    >
      <header>
        <h2 id={titleId}>{title}</h2>
        <button
          type="button"
          class="quiet"
          aria-label="Close"
          disabled={isHeld}
          onClick={() => element.current?.close()}
        >
          ✕
        </button>
      </header>
      <Hold.Provider value={setHeld}>{children}</Hold.Provider>
    </dialog>
  );
}

/** A window that is taken away without being closed leaves the focus nowhere. All else is inert until it is gone. */
function giveFocusBack(before: Element | null): void {
  queueMicrotask(() => {
    const target = before?.isConnected ? before : document.getElementById("content");
    if (target instanceof HTMLElement && document.activeElement === document.body) target.focus();
  });
}
