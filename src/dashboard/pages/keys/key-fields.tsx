import { Field, textOf } from "../../ui/form.js";
import type { KeyDraft } from "./key-draft.js";

export interface KeyFieldsProps {
  readonly draft: KeyDraft;
  readonly onChange: (draft: KeyDraft) => void;
}

/** What can be set when a key is made and changed later. */
export function KeyFields({ draft, onChange }: KeyFieldsProps) {
  const set = (field: keyof KeyDraft) => (event: Event) => onChange({ ...draft, [field]: textOf(event) });
  return (
    <>
      <Field label="Name" name="name" hint="For people: what uses the key.">
        {(ids) => (
          <input
            {...ids}
            type="text"
            required
            maxLength={128}
            autocomplete="off"
            value={draft.name}
            onInput={set("name")}
          />
        )}
      </Field>
      <Field
        label="Models"
        name="models"
        hint="One a line: ids, or prefixes that end in *. The key sees no others. Empty: all."
      >
        {(ids) => <textarea {...ids} rows={2} spellcheck={false} value={draft.models} onInput={set("models")} />}
      </Field>
      <fieldset>
        <legend>Limits, where the configuration is not to decide</legend>
        <div class="key-limits">
          <WholeNumber label="Requests a minute" value={draft.requestsPerMinute} onInput={set("requestsPerMinute")} />
          <WholeNumber label="Tokens a minute" value={draft.tokensPerMinute} onInput={set("tokensPerMinute")} />
          <WholeNumber label="Requests at once" value={draft.concurrency} onInput={set("concurrency")} />
        </div>
      </fieldset>
      <Field label="Expires" name="expires_at" hint="From then on it is refused. Empty: never.">
        {(ids) => <input {...ids} type="datetime-local" value={draft.expiresAt} onInput={set("expiresAt")} />}
      </Field>
    </>
  );
}

interface WholeNumberProps {
  readonly label: string;
  readonly value: string;
  readonly onInput: (event: Event) => void;
}

function WholeNumber({ label, value, onInput }: WholeNumberProps) {
  return (
    <Field label={label}>
      {(ids) => <input {...ids} type="number" min={1} step={1} inputMode="numeric" value={value} onInput={onInput} />}
    </Field>
  );
}
