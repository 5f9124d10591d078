import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

/** Puts text on the clipboard and says that it did. */
export function Copy({ text, label = "Copy" }: { readonly text: string; readonly label?: string }) {
  const [state, setState] = useState<"idle" | "copied" | "refused">("idle");
  const copy = (): void => {
    // Browsers have no clipboard for pages that came over plain HTTP from another machine.
    const clipboard: Clipboard | undefined = navigator.clipboard;
    if (clipboard === undefined) setState("refused");
    else
      clipboard.writeText(text).then(
        () => setState("copied"),
        () => setState("refused"),
      );
  };
  return (
    <button type="button" onClick={copy}>
      <span aria-live="polite">
        {state === "copied" ? "Copied" : state === "refused" ? "Select it and copy by hand" : label}
      </span>
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

/** What a dialog shows when it has made a secret: the value, this once. */
export function SecretOnce({ label, secret, onClose, children }: SecretOnceProps) {
  return (
    <div class="stack">
      <div class="secret">
        <strong>{label}</strong>
        <div class="row">
          <code class="value">{secret}</code>
          <Copy text={secret} />
        </div>
        <small>It is shown only now. Keep it where secrets are kept; a lost one must be replaced.</small>
      </div>
      {children}
      <footer>
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </footer>
    </div>
  );
}
