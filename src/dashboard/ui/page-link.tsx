import type { ComponentChildren } from "preact";
import { go, hrefOf } from "../location.js";
import "./page-link.css";

export interface PageLinkProps {
  readonly page: string;
  readonly query?: Readonly<Record<string, string>>;
  /** A link that looks like a button. */
  readonly isButton?: boolean;
  /** What it is called by those who cannot see what is around it. */
  readonly label?: string;
  /** Called when it was followed here, e.g. to close a window. */
  readonly onFollow?: () => void;
  readonly children: ComponentChildren;
}

/** Leads to another page without loading the document again, unless a new tab or window is asked for. */
export function PageLink({ page, query = {}, isButton = false, label, onFollow, children }: PageLinkProps) {
  return (
    <a
      href={hrefOf(page, query)}
      aria-label={label}
      class={isButton ? "button" : undefined}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        go(page, query);
        onFollow?.();
      }}
    >
      {children}
    </a>
  );
}
