import type { ComponentChildren, Key } from "preact";
import { useRef } from "preact/hooks";

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  /** Aligns the column to the right. */
  readonly isNumber?: boolean;
}

export interface TableProps<T> {
  /** Describes the rows, for screen readers. */
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => Key;
}

/** A table that becomes a list of cards on narrow screens. */
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

/** The previous page's token, by the URL of the page that follows it. */
const previousTokens = new Map<string, string>();

export interface PagerProps {
  /** Token of the current page; empty for the first. */
  readonly token: string;
  /** Empty on the last page; null while unknown. */
  readonly nextToken: string | null;
  /** Shows a page by changing the URL. */
  readonly onPage: (token: string) => void;
}

/** First, previous and next page of a list. */
export function Pager({ token, nextToken, onPage }: PagerProps) {
  const isShown = useRef(false);
  // The pager stays while the next page loads, with enabled buttons: a disabled button would lose the focus.
  isShown.current = token !== "" || (nextToken === null ? isShown.current : nextToken !== "");
  if (!isShown.current) return null;
  const before = token === "" ? undefined : previousTokens.get(window.location.href);
  const showNext = (): void => {
    if (nextToken === null) return;
    onPage(nextToken);
    previousTokens.set(window.location.href, token);
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
