import type { ComponentChildren } from "preact";

export interface ComposerProps {
  readonly onSend: () => void;
  readonly children: ComponentChildren;
  readonly buttons: ComponentChildren;
}

/** A form that Ctrl and Enter send, too, because Enter alone begins a line. */
export function Composer({ onSend, children, buttons }: ComposerProps) {
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        event.currentTarget.requestSubmit();
      }}
    >
      {children}
      <footer>{buttons}</footer>
    </form>
  );
}
