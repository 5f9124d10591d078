import { wholeNumber } from "../lib/format.js";
import { PageLink } from "../lib/location.js";

export interface Tab {
  readonly title: string;
  /** Shown behind the title, as a number or such as “100+”; null or absent: none. */
  readonly count?: number | string | null;
  /** The query of the page's URL that shows this tab. */
  readonly query: Readonly<Record<string, string>>;
  readonly isCurrent: boolean;
}

export interface TabsProps {
  /** Accessible name: what the tabs select. */
  readonly label: string;
  readonly page: string;
  readonly tabs: readonly Tab[];
  /** A few short values in one frame, as time ranges, instead of tabs over a list. */
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
