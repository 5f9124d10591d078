/**
 * The dashboard's addresses: `<prefix>/dashboard/<page>?<query>`. A proxy may add the prefix; every request to the service
 * starts with it. Pages are one level below `dashboard/`, settings two.
 */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

const marker = "/dashboard/";
const { pathname } = window.location;
const base = `${pathname.slice(0, pathname.lastIndexOf(marker) + 1)}dashboard/`;

/** The path that a proxy adds before `/dashboard/`, `/v1` and `/unified.…`; empty without one. */
export const prefix = base.slice(0, -marker.length);

/** Paths that differ from the page's name. */
const paths: Readonly<Record<string, string>> = { keys: "settings/keys", webhooks: "settings/webhooks" };

/** Paths that are redirected: those of earlier versions, and `settings`, a group without a page. */
const moved: Readonly<Record<string, string>> = { ...paths, settings: "settings/keys" };

export interface PageLocation {
  /** `keys`, `deliveries`, …; empty for the overview. */
  readonly page: string;
  readonly query: URLSearchParams;
}

/** The current location; renders again when it changes. */
export function useLocation(): PageLocation {
  const [location, setLocation] = useState(current);
  useEffect(() => {
    const update = () => setLocation(current());
    for (const name of ["popstate", changed]) window.addEventListener(name, update);
    return () => {
      for (const name of ["popstate", changed]) window.removeEventListener(name, update);
    };
  }, []);
  return location;
}

function current(): PageLocation {
  const { pathname: path, search, hash } = window.location;
  const asked = path.slice(base.length);
  const found = moved[asked] ?? asked;
  if (found !== asked) window.history.replaceState(null, "", `${base}${found}${search}${hash}`);
  const name = Object.keys(paths).find((page) => paths[page] === found) ?? found;
  return { page: name, query: new URLSearchParams(search) };
}

const changed = "dashboard-location";

/** The URL of a page. */
export function hrefOf(page: string, query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return `${base}${paths[page] ?? page}${search === "" ? "" : `?${search}`}`;
}

/** Shows another page; `replace` adds no history entry. */
export function go(page: string, query: Readonly<Record<string, string>> = {}, replace = false): void {
  const url = hrefOf(page, query);
  if (replace) window.history.replaceState(null, "", url);
  else window.history.pushState(null, "", url);
  window.dispatchEvent(new Event(changed));
}

export interface PageLinkProps {
  readonly page: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Looks like a button. */
  readonly isButton?: boolean;
  /** Marks the link as the view that is shown. */
  readonly isCurrent?: boolean;
  /** Accessible name, where the text alone is ambiguous. */
  readonly label?: string;
  /** Called when the link is followed in this tab, e.g. to close a dialog. */
  readonly onFollow?: () => void;
  readonly children: ComponentChildren;
}

/** Links to another page without reloading the document; modifier keys open it in a new tab or window as usual. */
export function PageLink({
  page,
  query = {},
  isButton = false,
  isCurrent = false,
  label,
  onFollow,
  children,
}: PageLinkProps) {
  return (
    <a
      href={hrefOf(page, query)}
      aria-label={label}
      aria-current={isCurrent ? "page" : undefined}
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
