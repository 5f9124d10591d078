import { useEffect, useState } from "preact/hooks";
import { Field, textOf } from "./form.js";
import "./account-choice.css";

export interface AccountChoiceProps {
  readonly account: string;
  /** What an empty field stands for. */
  readonly none: string;
  readonly onChoose: (account: string) => void;
}

/** Chooses the account whose things a page shows. */
export function AccountChoice({ account, none, onChoose }: AccountChoiceProps) {
  const [text, setText] = useState(account);
  useEffect(() => setText(account), [account]);
  return (
    <search>
      <form
        class="row account-choice"
        onSubmit={(event) => {
          event.preventDefault();
          onChoose(text.trim());
        }}
      >
        <Field label="Account">
          {(ids) => (
            <input
              {...ids}
              type="text"
              placeholder={none}
              autocomplete="off"
              spellcheck={false}
              value={text}
              onInput={(event) => setText(textOf(event))}
            />
          )}
        </Field>
        <button type="submit">Show</button>
      </form>
    </search>
  );
}
