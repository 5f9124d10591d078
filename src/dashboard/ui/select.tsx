import { Field, textOf } from "./form.js";

export interface SelectProps<T extends string> {
  readonly label: string;
  /** What may be chosen, with the words for it. */
  readonly titles: Readonly<Partial<Record<T, string>>>;
  readonly value: T;
  readonly onChoose: (value: T) => void;
}

/** One of a few values. */
export function Select<T extends string>({ label, titles, value, onChoose }: SelectProps<T>) {
  const names = Object.keys(titles) as T[];
  const choose = (text: string): void => {
    const chosen = names.find((name) => name === text);
    if (chosen !== undefined) onChoose(chosen);
  };
  return (
    <Field label={label}>
      {(ids) => (
        <select {...ids} value={value} onChange={(event) => choose(textOf(event))}>
          {names.map((name) => (
            <option key={name} value={name}>
              {titles[name]}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
