import type { ComponentChildren, Key } from "preact";
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

/** Leads to the next page of a list that the service pages. */
export function Pager({
  isFirst,
  nextToken,
  onPage,
}: {
  readonly isFirst: boolean;
  readonly nextToken: string;
  /** Empty: the first page. */
  readonly onPage: (token: string) => void;
}) {
  if (isFirst && nextToken === "") return null;
  return (
    <nav class="pager" aria-label="Pages">
      <button type="button" disabled={isFirst} onClick={() => onPage("")}>
        First page
      </button>
      <button type="button" disabled={nextToken === ""} onClick={() => onPage(nextToken)}>
        Next page
      </button>
    </nav>
  );
}
