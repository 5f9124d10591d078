import { wholeNumber } from "../lib/format.js";
import { PageLink } from "../lib/location.js";

export interface Tab {
  readonly title: string;
  /** Shown after the title: a number, or a text such as “100+”; null or absent: nothing. */
  readonly count?: number | string | null;
  /** The query of the page's URL that shows this tab. */
  readonly query: Readonly<Record<string, string>>;
  readonly isCurrent: boolean;
}

export interface TabsProps {
  /** Accessible name of the tabs, such as the selected property. */
  readonly label: string;
  readonly page: string;
  readonly tabs: readonly Tab[];
  /** Renders a few short values, such as time ranges, in one frame, instead of tabs above a list. */
  readonly isCompact?: boolean;
}

/** Links between views of one page, each with its URL. */
export function Tabs({ label, page, tabs, isCompact = false }: TabsProps) {
  return (
    <nav class={isCompact ? "segments" : "tabs"} aria-label={label}>
      {tabs.map(({ title, count = null, query, isCurrent }) => (
        <PageLink key={title} page={page} query={query} isCurrent={isCurrent}>
          {title}
          {count !== null && <span class="count">{typeof count === "number" ? wholeNumber(count) : count}</span>}
        </PageLink>
      ))}
    </nav>
  );
}
