import { useEffect, useRef, useState } from "preact/hooks";
import { Field, textOf } from "../../ui/form.js";
import { Select } from "../../ui/select.js";
import { type KeyQuery, stateTitles } from "./key-query.js";

/** After the last letter, so that a word is asked for once. */
const typingMs = 250;

export interface KeyFilterProps {
  readonly query: KeyQuery;
  readonly onFilter: (query: KeyQuery) => void;
}

/** Chooses which keys are listed, while it is typed. */
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
    timer.current = setTimeout(() => apply(typed), typingMs);
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
              placeholder="name, account, id, start or end"
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
              placeholder="all accounts"
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
