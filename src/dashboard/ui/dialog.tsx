import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

export interface DialogProps {
  readonly title: string;
  /** Called when it is closed by Escape or its button. */
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** A modal window: the browser keeps the focus in it and gives it back. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => giveFocusBack(before);
  }, []);
  return (
    <dialog ref={element} aria-labelledby={titleId} onClose={onClose}>
      <header>
        <h2 id={titleId}>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={() => element.current?.close()}>
          ✕
        </button>
      </header>
      {children}
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
