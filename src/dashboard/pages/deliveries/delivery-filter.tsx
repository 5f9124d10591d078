import { useState } from "preact/hooks";
import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { call } from "../../lib/api.js";
import { toInstant, toLocal } from "../../lib/format.js";
import { useData } from "../../lib/use-data.js";
import { Select, TextField } from "../../ui/form.js";
import { Icon } from "../../ui/icon.js";
import type { Choice } from "../../ui/picker/choice.js";
import { useAccountChoices } from "../../ui/picker/known.js";
import { Picker } from "../../ui/picker/picker.js";
import { eventTypeNames } from "../webhooks/events.js";
import { type DeliveryQuery, isFiltered, noFilter } from "./delivery.js";

/** Screens that always show the filter; narrower ones show it after a click. */
const wideScreen = "(min-width: 721px)";

export interface DeliveryFilterProps {
  readonly query: DeliveryQuery;
  readonly endpoints: readonly WebhookEndpointJson[] | null;
  /** Called with every change. */
  readonly onFilter: (query: DeliveryQuery) => void;
}

const typeTitles = { "": "All events", ...Object.fromEntries(eventTypeNames.map((type) => [type, type])) };

/** The fields of the filter except the state, which the tabs select. */
export function DeliveryFilter({ query, endpoints, onFilter }: DeliveryFilterProps) {
  const accounts = useAccountChoices();
  const [isWide] = useState(() => window.matchMedia(wideScreen).matches);
  const set = (change: Partial<DeliveryQuery>): void => onFilter({ ...query, ...change });
  return (
    <search>
      <details class="delivery-filters" open={isWide || isFiltered({ ...query, state: "" })}>
        <summary>Filters</summary>
        <div class="delivery-filter">
          <Select label="Event type" titles={typeTitles} value={query.type} onChoose={(type) => set({ type })} />
          <Picker
            label="Endpoint"
            none="All endpoints"
            choices={endpointChoices(endpoints)}
            value={query.endpoint}
            onChange={(endpoint) => set({ endpoint })}
          />
          <Picker
            label="Account"
            none="All accounts"
            choices={accounts}
            value={query.account}
            onChange={(account) => set({ account, endpoint: "" })}
          />
          <Instant label="Created from" value={query.from} onChange={(from) => set({ from })} />
          <Instant label="Created before" value={query.before} onChange={(before) => set({ before })} />
          {query.replay !== "" && (
            <div class="chip">
              Replay {query.replay}
              <button
                type="button"
                class="quiet"
                aria-label="Remove the filter by replay"
                onClick={() => set({ replay: "" })}
              >
                <Icon name="close" />
              </button>
            </div>
          )}
          <button
            type="button"
            class="quiet"
            disabled={!isFiltered({ ...query, state: "" })}
            onClick={() => onFilter({ ...noFilter, state: query.state })}
          >
            Clear
          </button>
        </div>
      </details>
    </search>
  );
}

interface InstantProps {
  readonly label: string;
  /** ISO 8601; empty: none. */
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function Instant({ label, value, onChange }: InstantProps) {
  return (
    <TextField
      label={label}
      type="datetime-local"
      value={toLocal(value)}
      onChange={(local) => onChange(toInstant(local) ?? "")}
    />
  );
}

/** Endpoints by URL, with their account. */
export function endpointChoices(endpoints: readonly WebhookEndpointJson[] | null): readonly Choice[] | null {
  return endpoints?.map(({ id = "", url = "", account = "" }) => ({ value: id, label: url, detail: account })) ?? null;
}

/** The endpoints of at most this many accounts are read; others are shown by id. */
const accountsMax = 20;

/** The endpoints of `account` or, if it is empty, of the known accounts; null until they are read. */
export function useEndpoints(account: string): readonly WebhookEndpointJson[] | null {
  const known = useAccountChoices();
  const accounts = account === "" ? known?.slice(0, accountsMax).map(({ value }) => value) : [account];
  const { value } = useData(
    async (signal) => {
      const lists = (accounts ?? []).map((of) =>
        call("unified.webhook.v1.WebhookEndpointService/ListWebhookEndpoints", { account: of }, signal),
      );
      return (await Promise.all(lists)).flatMap(({ webhookEndpoints = [] }) => webhookEndpoints);
    },
    [accounts?.join("\n")],
  );
  return accounts === undefined ? null : value;
}
