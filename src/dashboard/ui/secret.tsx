import { useState } from "preact/hooks";

/** Puts text on the clipboard and says that it did. */
export function Copy({ text, label = "Copy" }: { readonly text: string; readonly label?: string }) {
  const [state, setState] = useState<"idle" | "copied" | "refused">("idle");
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(
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

/** A value that is shown this once. */
export function SecretOnce({ label, secret }: { readonly label: string; readonly secret: string }) {
  return (
    <div class="secret">
      <strong>{label}</strong>
      <div class="row">
        <code class="value">{secret}</code>
        <Copy text={secret} />
      </div>
      <small>It is shown only now. Keep it where secrets are kept; a lost one must be replaced.</small>
    </div>
  );
}
