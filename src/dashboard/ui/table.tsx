import type { ComponentChildren, Key } from "preact";
import { useRef } from "preact/hooks";
import "./table.css";

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  /** Numbers stand to the right. */
  readonly isNumber?: boolean;
}

export interface TableProps<T> {
  /** What the rows are, for those who cannot see the page around. */
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => Key;
}

/** A table that becomes a list of cards where there is no room for columns. */
export function Table<T>({ caption, columns, rows, keyOf }: TableProps<T>) {
  return (
    <div class="table">
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th key={title} scope="col" class={isNumber ? "number" : undefined}>
                {title === "" ? <span class="unseen">Actions</span> : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ title, cell, isNumber }) => (
                <td key={title} data-title={title} class={isNumber ? "number" : undefined}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** From the address of a page to the token of the one before it, where somebody came from there. */
const pagesBefore = new Map<string, string>();

export interface PagerProps {
  /** Of the page that is shown; empty: the first. */
  readonly token: string;
  /** Empty: this is the last page; null: not known yet. */
  readonly nextToken: string | null;
  /** Shows a page, by changing the address. */
  readonly onPage: (token: string) => void;
}

/** Leads through a list that the service pages. */
export function Pager({ token, nextToken, onPage }: PagerProps) {
  const isShown = useRef(false);
  // While a page is read it stays, and so does the focus that may be in it: a button that is disabled would lose it.
  isShown.current = token !== "" || (nextToken === null ? isShown.current : nextToken !== "");
  if (!isShown.current) return null;
  const before = token === "" ? undefined : pagesBefore.get(window.location.href);
  const showNext = (): void => {
    if (nextToken === null) return;
    onPage(nextToken);
    pagesBefore.set(window.location.href, token);
  };
  return (
    <nav class="pager" aria-label="Pages">
      <button type="button" disabled={token === ""} onClick={() => onPage("")}>
        First page
      </button>
      <button type="button" disabled={before === undefined} onClick={() => onPage(before ?? "")}>
        Previous page
      </button>
      <button type="button" disabled={nextToken === ""} aria-disabled={nextToken === null} onClick={showNext}>
        Next page
      </button>
    </nav>
  );
}
