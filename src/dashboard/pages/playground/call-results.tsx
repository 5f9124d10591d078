import { Field, textOf } from "../../ui/form.js";
import { Composer } from "./composer.js";
import { type Call, type Turn, toolTurn } from "./transcript.js";

/** What is typed, by the id of the call. */
export type Results = Readonly<Record<string, string>>;

export interface CallResultsProps {
  readonly calls: readonly Call[];
  readonly results: Results;
  readonly onChange: (results: Results) => void;
  readonly onSend: (results: readonly Turn[]) => void;
  /** Ends the conversation instead. */
  readonly onReset: () => void;
}

/** Asks what the called tools answer: the model goes on only with that. */
export function CallResults({ calls, results, onChange, onSend, onReset }: CallResultsProps) {
  return (
    <Composer
      onSend={() => onSend(calls.map(({ id }) => toolTurn(id, results[id] ?? "")))}
      buttons={
        <>
          <button type="button" onClick={onReset}>
            New conversation
          </button>
          <button type="submit" class="primary">
            Send results
          </button>
        </>
      }
    >
      {calls.map(({ id, name }) => (
        <Field key={id} label={`What ${name} answers`}>
          {(ids) => (
            <textarea
              {...ids}
              rows={2}
              required
              value={results[id] ?? ""}
              onInput={(event) => onChange({ ...results, [id]: textOf(event) })}
            />
          )}
        </Field>
      ))}
    </Composer>
  );
}
