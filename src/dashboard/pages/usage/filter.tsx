import { AccountChoice } from "../../ui/account-choice.js";
import { Field, textOf } from "../../ui/form.js";
import { Select } from "../../ui/select.js";
import { type Choice, groupingTitles, measureTitles } from "./choice.js";
import { rangeTitles } from "./range.js";

export interface FilterProps {
  readonly choice: Choice;
  readonly onChoose: (change: Partial<Choice>) => void;
}

/** Chooses what the page shows. */
export function Filter({ choice, onChoose }: FilterProps) {
  return (
    <div class="row filter">
      <AccountChoice account={choice.account} none="default" onChoose={(account) => onChoose({ account })} />
      <Select label="Time" titles={rangeTitles} value={choice.range} onChoose={(range) => onChoose({ range })} />
      {choice.range === "days" && (
        <>
          <Day label="First day (UTC)" value={choice.from} onChoose={(from) => onChoose({ from })} />
          <Day label="Last day (UTC)" value={choice.to} onChoose={(to) => onChoose({ to })} />
        </>
      )}
      <Select label="By" titles={groupingTitles} value={choice.by} onChoose={(by) => onChoose({ by })} />
      <Select label="Chart of" titles={measureTitles} value={choice.of} onChoose={(of) => onChoose({ of })} />
    </div>
  );
}

interface DayProps {
  readonly label: string;
  readonly value: string;
  readonly onChoose: (day: string) => void;
}

function Day({ label, value, onChoose }: DayProps) {
  return (
    <Field label={label}>
      {(ids) => (
        <input
          {...ids}
          type="date"
          required
          value={value}
          onChange={(event) => {
            if (textOf(event) !== "") onChoose(textOf(event));
          }}
        />
      )}
    </Field>
  );
}
