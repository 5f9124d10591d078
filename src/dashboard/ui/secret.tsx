import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { useHold } from "./dialog.js";

/** Puts text on the clipboard and says that it did. */
export function Copy({ text, label = "Copy" }: { readonly text: string; readonly label?: string }) {
  const [last, setLast] = useState<{ readonly text: string; readonly isCopied: boolean } | null>(null);
  const copy = (): void => {
    // Browsers have no clipboard for pages that came over plain HTTP from another machine.
    const clipboard: Clipboard | undefined = navigator.clipboard;
    const tell = (isCopied: boolean): void => setLast({ text, isCopied });
    if (clipboard === undefined) tell(false);
    else
      clipboard.writeText(text).then(
        () => tell(true),
        () => tell(false),
      );
  };
  // What was said of another text does not hold for this one.
  const said = last?.text !== text ? label : last.isCopied ? "Copied" : "Select it and copy by hand";
  return (
    <button type="button" onClick={copy}>
      <span aria-live="polite">{said}</span>
    </button>
  );
}

export interface SecretOnceProps {
  readonly label: string;
  readonly secret: string;
  readonly onClose: () => void;
  /** What else there is to know. */
  readonly children?: ComponentChildren;
}

/** What a dialog shows when it has made a secret: the value, this once. Only its own button closes the window. */
export function SecretOnce({ label, secret, onClose, children }: SecretOnceProps) {
  const box = useRef<HTMLElement>(null);
  const id = useId();
  useHold(true);
  // It takes the place of a form that had the focus; so it is read out, too.
  useEffect(() => box.current?.focus(), []);
  return (
    <div class="stack">
      <section ref={box} class="secret" tabIndex={-1} aria-labelledby={id} aria-describedby={`${id}-once`}>
        <strong id={id}>{label}</strong>
        <div class="row">
          <code class="value">{secret}</code>
          <Copy text={secret} />
        </div>
        <small id={`${id}-once`}>
          It is shown only now. Keep it where secrets are kept; a lost one must be replaced.
        </small>
      </section>
      {children}
      <footer>
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </footer>
    </div>
  );
}
