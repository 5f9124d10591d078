import { useEffect, useRef, useState } from "preact/hooks";
import { Field, Select, textOf } from "../../ui/form.js";
import { type KeyQuery, statusTitles } from "./api-key.js";

const stateTitles = { "": "All", ...statusTitles } as const;

/** Debounce of typing. */
const debounceMs = 250;

export interface KeyFilterProps {
  readonly query: KeyQuery;
  readonly onFilter: (query: KeyQuery) => void;
}

/** Filters the list while the user types. */
export function KeyFilter({ query, onFilter }: KeyFilterProps) {
  const [draft, setDraft] = useState(query);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const address = JSON.stringify(query);
  useEffect(() => setDraft(query), [address]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const apply = (chosen: KeyQuery): void => {
    clearTimeout(timer.current);
    const filter = { ...chosen, search: chosen.search.trim(), account: chosen.account.trim() };
    if (JSON.stringify(filter) !== address) onFilter(filter);
  };
  const type = (field: "search" | "account") => (event: Event) => {
    const typed = { ...draft, [field]: textOf(event) };
    setDraft(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => apply(typed), debounceMs);
  };
  const choose = (state: KeyQuery["state"]): void => {
    const chosen = { ...draft, state };
    setDraft(chosen);
    apply(chosen);
  };
  return (
    <search>
      <form
        class="row bottom key-filter"
        onSubmit={(event) => {
          event.preventDefault();
          apply(draft);
        }}
      >
        <Field label="Search">
          {(ids) => (
            <input
              {...ids}
              type="search"
              class="key-search"
              placeholder="Name, account, ID or key"
              maxLength={128}
              autocomplete="off"
              spellcheck={false}
              value={draft.search}
              onInput={type("search")}
            />
          )}
        </Field>
        <Field label="Account">
          {(ids) => (
            <input
              {...ids}
              type="text"
              placeholder="All accounts"
              maxLength={64}
              autocomplete="off"
              spellcheck={false}
              value={draft.account}
              onInput={type("account")}
            />
          )}
        </Field>
        <Select label="Status" titles={stateTitles} value={draft.state as keyof typeof stateTitles} onChoose={choose} />
      </form>
    </search>
  );
}
