import { Check } from "../../ui/check.js";
import { Field, textOf } from "../../ui/form.js";
import { type EventType, eventTypeNames, eventTypes } from "./event-types.js";

/** An endpoint as its form holds it. */
export interface EndpointDraft {
  readonly url: string;
  readonly events: readonly string[];
  readonly description: string;
}

export interface EndpointFieldsProps {
  readonly draft: EndpointDraft;
  readonly onChange: (draft: EndpointDraft) => void;
}

/** What can be set when an endpoint is added and changed later. */
export function EndpointFields({ draft, onChange }: EndpointFieldsProps) {
  const toggle = (type: EventType, isOn: boolean): void => {
    const events = eventTypeNames.filter((each) => (each === type ? isOn : draft.events.includes(each)));
    onChange({ ...draft, events });
  };
  return (
    <>
      <Field label="URL" name="url" hint="Events are posted to it. https, on an address that is public.">
        {(ids) => (
          <input
            {...ids}
            type="url"
            required
            maxLength={2_048}
            autocomplete="off"
            placeholder="https://hooks.example.com/inference"
            value={draft.url}
            onInput={(event) => onChange({ ...draft, url: textOf(event) })}
          />
        )}
      </Field>
      <fieldset data-field="events">
        <legend>Events</legend>
        {eventTypeNames.map((type) => (
          <Check key={type} isOn={draft.events.includes(type)} onChange={(isOn) => toggle(type, isOn)}>
            <code>{type}</code>: {eventTypes[type]}
          </Check>
        ))}
      </fieldset>
      <Field label="Description" name="description" hint="For people.">
        {(ids) => (
          <input
            {...ids}
            type="text"
            maxLength={256}
            autocomplete="off"
            value={draft.description}
            onInput={(event) => onChange({ ...draft, description: textOf(event) })}
          />
        )}
      </Field>
    </>
  );
}
