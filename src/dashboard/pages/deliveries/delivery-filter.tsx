import { useEffect, useState } from "preact/hooks";
import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { toInstant, toLocal } from "../../local-time.js";
import { Field, textOf } from "../../ui/form.js";
import { eventTypeNames } from "../webhooks/event-types.js";
import { type DeliveryQuery, isFiltered, noFilter } from "./delivery-query.js";
import { deliveryStates } from "./delivery-words.js";
import { EndpointField } from "./endpoint-field.js";

/** Where there is no room for it beside the list, it is closed at first. */
const roomy = "(min-width: 721px)";

export interface DeliveryFilterProps {
  readonly query: DeliveryQuery;
  readonly endpoints: readonly WebhookEndpointJson[];
  readonly onFilter: (query: DeliveryQuery) => void;
}

/** Chooses what is listed. */
export function DeliveryFilter({ query, endpoints, onFilter }: DeliveryFilterProps) {
  const [draft, setDraft] = useState(() => localOf(query));
  const address = JSON.stringify(query);
  useEffect(() => setDraft(localOf(query)), [address]);
  const set = (change: Partial<DeliveryQuery>): void => setDraft({ ...draft, ...change });
  return (
    <search>
      <details class="card" open={isFiltered(query) || window.matchMedia(roomy).matches}>
        <summary>Filter</summary>
        <form
          class="stack delivery-filter-form"
          onSubmit={(event) => {
            event.preventDefault();
            onFilter(instantOf(draft));
          }}
        >
          <div class="delivery-filter">
            <Choice label="State" value={draft.state} options={stateOptions} onChange={(state) => set({ state })} />
            <Choice label="Event" value={draft.type} options={typeOptions} onChange={(type) => set({ type })} />
            <EndpointField endpoints={endpoints} value={draft.endpoint} onChange={(endpoint) => set({ endpoint })} />
            <Text
              label="Account"
              placeholder="all accounts"
              value={draft.account}
              onChange={(account) => set({ account })}
            />
            <Instant label="Created from" value={draft.from} onChange={(from) => set({ from })} />
            <Instant label="Created before" value={draft.before} onChange={(before) => set({ before })} />
            {query.replay !== "" && (
              <Text label="Replay" placeholder="any" value={draft.replay} onChange={(replay) => set({ replay })} />
            )}
          </div>
          <footer>
            <button type="button" disabled={!isFiltered(query)} onClick={() => onFilter(noFilter)}>
              Show all
            </button>
            <button type="submit">Filter</button>
          </footer>
        </form>
      </details>
    </search>
  );
}

/** The times as inputs have them: they are made into instants at the end, not while they are typed. */
function localOf(query: DeliveryQuery): DeliveryQuery {
  return { ...query, from: toLocal(query.from), before: toLocal(query.before) };
}

function instantOf(draft: DeliveryQuery): DeliveryQuery {
  return {
    ...draft,
    account: draft.account.trim(),
    endpoint: draft.endpoint.trim(),
    from: toInstant(draft.from) ?? "",
    before: toInstant(draft.before) ?? "",
  };
}

type Option = readonly [value: string, words: string];

const stateOptions: readonly Option[] = [
  ["", "any"],
  ...Object.entries(deliveryStates).map(([state, { word }]): Option => [state, word]),
];
const typeOptions: readonly Option[] = [["", "any"], ...eventTypeNames.map((type): Option => [type, type])];

interface InputProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function Choice({ label, value, options, onChange }: InputProps & { readonly options: readonly Option[] }) {
  return (
    <Field label={label}>
      {(ids) => (
        <select {...ids} value={value} onChange={(event) => onChange(textOf(event))}>
          {options.map(([option, words]) => (
            <option key={option} value={option}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

function Text({ label, value, placeholder, onChange }: InputProps & { readonly placeholder: string }) {
  return (
    <Field label={label}>
      {(ids) => (
        <input
          {...ids}
          type="text"
          placeholder={placeholder}
          autocomplete="off"
          spellcheck={false}
          value={value}
          onInput={(event) => onChange(textOf(event))}
        />
      )}
    </Field>
  );
}

function Instant({ label, value, onChange }: InputProps) {
  return (
    <Field label={label}>
      {(ids) => <input {...ids} type="datetime-local" value={value} onInput={(event) => onChange(textOf(event))} />}
    </Field>
  );
}
