import { useState } from "preact/hooks";
import { Icon } from "./icon.js";

export interface CodeBlockProps {
  readonly code: string;
  /** Heading above the code, as the name of a language. */
  readonly title?: string;
  readonly copyLabel?: string;
}

/** Code or a command, with a button that copies it. */
export function CodeBlock({ code, title = "", copyLabel = "Copy" }: CodeBlockProps) {
  return (
    <div class="code-block">
      <div class="code-head">
        <span>{title}</span>
        <Copy text={code} label={copyLabel} />
      </div>
      {/* Long lines wrap, so that nothing scrolls sideways. */}
      <pre>{code}</pre>
    </div>
  );
}

/** Copies text to the clipboard and reports the result on the button. */
export function Copy({ text, label = "Copy" }: { readonly text: string; readonly label?: string }) {
  const [last, setLast] = useState<{ readonly text: string; readonly isCopied: boolean } | null>(null);
  const copy = (): void => {
    // Browsers offer no clipboard on pages served over plain HTTP by another machine.
    const clipboard: Clipboard | undefined = navigator.clipboard;
    const report = (isCopied: boolean): void => setLast({ text, isCopied });
    if (clipboard === undefined) report(false);
    else
      clipboard.writeText(text).then(
        () => report(true),
        () => report(false),
      );
  };
  // A result for an earlier text does not apply to this one.
  const isCurrent = last?.text === text;
  const shown = !isCurrent ? label : last.isCopied ? "Copied" : "Copy failed: select and copy manually";
  return (
    <button type="button" class="small" onClick={copy}>
      <Icon name={isCurrent && last.isCopied ? "check" : "copy"} />
      <span aria-live="polite">{shown}</span>
    </button>
  );
}
