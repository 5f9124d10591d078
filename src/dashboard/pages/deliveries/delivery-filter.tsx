import { useEffect, useId, useState } from "preact/hooks";
import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { call } from "../../lib/api.js";
import { toInstant, toLocal } from "../../lib/format.js";
import { useData } from "../../lib/use-data.js";
import { Field, textOf } from "../../ui/form.js";
import { eventTypeNames } from "../webhooks/events.js";
import { type DeliveryQuery, deliveryStatuses, isFiltered, noFilter } from "./delivery.js";

/** On narrower screens the filter is collapsed at first. */
const wideScreen = "(min-width: 721px)";

export interface DeliveryFilterProps {
  readonly query: DeliveryQuery;
  readonly endpoints: readonly WebhookEndpointJson[];
  readonly onFilter: (query: DeliveryQuery) => void;
}

export function DeliveryFilter({ query, endpoints, onFilter }: DeliveryFilterProps) {
  const [draft, setDraft] = useState(() => localOf(query));
  const address = JSON.stringify(query);
  useEffect(() => setDraft(localOf(query)), [address]);
  const set = (change: Partial<DeliveryQuery>): void => setDraft({ ...draft, ...change });
  return (
    <search>
      <details class="card" open={isFiltered(query) || window.matchMedia(wideScreen).matches}>
        <summary>Filters</summary>
        <form
          class="stack delivery-filter-form"
          onSubmit={(event) => {
            event.preventDefault();
            onFilter(instantOf(draft));
          }}
        >
          <div class="delivery-filter">
            <Choice label="Status" value={draft.state} options={stateOptions} onChange={(state) => set({ state })} />
            <Choice label="Event type" value={draft.type} options={typeOptions} onChange={(type) => set({ type })} />
            <EndpointField endpoints={endpoints} value={draft.endpoint} onChange={(endpoint) => set({ endpoint })} />
            <Text
              label="Account"
              placeholder="All accounts"
              value={draft.account}
              onChange={(account) => set({ account })}
            />
            <Instant label="Created from" value={draft.from} onChange={(from) => set({ from })} />
            <Instant label="Created before" value={draft.before} onChange={(before) => set({ before })} />
            {query.replay !== "" && (
              <Text label="Replay ID" placeholder="All" value={draft.replay} onChange={(replay) => set({ replay })} />
            )}
          </div>
          <footer>
            <button type="button" disabled={!isFiltered(query)} onClick={() => onFilter(noFilter)}>
              Clear
            </button>
            <button type="submit">Apply</button>
          </footer>
        </form>
      </details>
    </search>
  );
}

/** Inputs need local times; they are converted on submit. */
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

type Option = readonly [value: string, title: string];

const stateOptions: readonly Option[] = [
  ["", "All"],
  ...Object.entries(deliveryStatuses).map(([state, { title }]): Option => [state, title]),
];
const typeOptions: readonly Option[] = [["", "All"], ...eventTypeNames.map((type): Option => [type, type])];

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
          {options.map(([option, title]) => (
            <option key={option} value={option}>
              {title}
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

export interface EndpointFieldProps {
  /** Suggestions; other ids, e.g. of deleted endpoints, can be typed. */
  readonly endpoints: readonly WebhookEndpointJson[];
  readonly value: string;
  readonly onChange: (id: string) => void;
  readonly isRequired?: boolean;
}

export function EndpointField({ endpoints, value, onChange, isRequired = false }: EndpointFieldProps) {
  const listId = useId();
  return (
    <Field label="Endpoint" name="endpoint_id">
      {(ids) => (
        <>
          <input
            {...ids}
            type="text"
            list={listId}
            required={isRequired}
            placeholder="we_…"
            autocomplete="off"
            spellcheck={false}
            value={value}
            onInput={(event) => onChange(textOf(event))}
          />
          <datalist id={listId}>
            {endpoints.map(({ id, url }) => (
              <option key={id} value={id}>
                {url}
              </option>
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}

/** The account's endpoints for suggestions; empty until loaded or if loading fails. */
export function useEndpoints(account: string): readonly WebhookEndpointJson[] {
  const { value } = useData(
    (signal) => call("unified.webhook.v1.WebhookEndpointService/ListWebhookEndpoints", { account }, signal),
    [account],
  );
  return value?.webhookEndpoints ?? [];
}
