/**
 * Where the dashboard is: `<prefix>/dashboard/<page>?<query>`. The prefix is what a proxy may have put in front; everything
 * that is asked of the service begins with it. One level below `dashboard/`, so that relative addresses of assets hold.
 */
import { useEffect, useState } from "preact/hooks";

const marker = "/dashboard/";
const { pathname } = window.location;
const base = `${pathname.slice(0, pathname.lastIndexOf(marker) + 1)}dashboard/`;

/** What stands before `/dashboard/`, `/v1` and `/unified.…`; often empty. */
export const prefix = base.slice(0, -marker.length);

export interface Place {
  /** `keys`, `deliveries`, …; empty: the first page. */
  readonly page: string;
  readonly query: URLSearchParams;
}

function current(): Place {
  const path = window.location.pathname;
  return { page: path.slice(path.lastIndexOf("/") + 1), query: new URLSearchParams(window.location.search) };
}

const changed = "dashboard-place";

/** The address of a page, for links. */
export function hrefOf(page: string, query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return `${base}${page}${search === "" ? "" : `?${search}`}`;
}

/** Shows another page; `replace` leaves no entry to go back to. */
export function go(page: string, query: Readonly<Record<string, string>> = {}, replace = false): void {
  const url = hrefOf(page, query);
  if (replace) window.history.replaceState(null, "", url);
  else window.history.pushState(null, "", url);
  window.dispatchEvent(new Event(changed));
}

/** The place now, again whenever it changes. */
export function usePlace(): Place {
  const [place, setPlace] = useState(current);
  useEffect(() => {
    const update = () => setPlace(current());
    for (const name of ["popstate", changed]) window.addEventListener(name, update);
    return () => {
      for (const name of ["popstate", changed]) window.removeEventListener(name, update);
    };
  }, []);
  return place;
}
