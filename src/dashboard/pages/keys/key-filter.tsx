import { useEffect, useRef, useState } from "preact/hooks";
import { Field, Select, textOf } from "../../ui/form.js";
import { useAccountChoices } from "../../ui/picker/known.js";
import { Picker } from "../../ui/picker/picker.js";
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
  const accounts = useAccountChoices();
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const address = JSON.stringify(query);
  useEffect(() => setDraft(query), [address]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const apply = (chosen: KeyQuery): void => {
    clearTimeout(timer.current);
    const filter = { ...chosen, search: chosen.search.trim(), account: chosen.account.trim() };
    if (JSON.stringify(filter) !== address) onFilter(filter);
  };
  const type = (event: Event): void => {
    const typed = { ...draft, search: textOf(event) };
    setDraft(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => apply(typed), debounceMs);
  };
  const choose = (change: Partial<KeyQuery>): void => {
    const chosen = { ...draft, ...change };
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
              onInput={type}
            />
          )}
        </Field>
        <Picker
          label="Account"
          none="All accounts"
          acceptsOther
          choices={accounts}
          value={draft.account}
          onChange={(account) => choose({ account })}
        />
        <Select
          label="Status"
          titles={stateTitles}
          value={draft.state as keyof typeof stateTitles}
          onChoose={(state) => choose({ state })}
        />
      </form>
    </search>
  );
}
