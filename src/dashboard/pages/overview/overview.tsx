import type {
  LatencyJson,
  ListenersJson,
  ModelStatusJson,
  StateStatusJson,
  SystemJson,
} from "../../../../gen/unified/admin/v1/system_pb.js";
import { distance, milliseconds, time, wholeNumber } from "../../lib/format.js";
import { PageLink } from "../../lib/location.js";
import { Badge, Empty, Loading } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";
import { Facts, ModelState } from "../../ui/values.js";
import { ConnectionStatus, useOverview } from "./connection.js";
import { Diagnostics } from "./diagnostics.js";
import { Figures, RecentMinutes } from "./figures.js";
import { hintsOf } from "./hints.js";
import type { Point } from "./history.js";
import "./overview.css";

/** The state of the service, now and over the last minutes. */
export function Overview() {
  const { history, connection, retry } = useOverview();
  const { last: system, points } = history;
  return (
    <div class="stack overview">
      <ConnectionStatus connection={connection} at={time(system?.now)} onRetry={retry} />
      {system === null ? (
        connection.state !== "disconnected" && <Loading />
      ) : (
        <Sections system={system} points={points} />
      )}
    </div>
  );
}

function Sections({ system, points }: { readonly system: SystemJson; readonly points: readonly Point[] }) {
  return (
    <>
      <Hints system={system} />
      <Figures system={system} points={points} />
      <RecentMinutes points={points} />
      <div class="beside">
        <div class="stack">
          <Latencies latencies={system.latencies ?? []} />
          <Service system={system} />
        </div>
        <Store state={system.state ?? {}} deliveriesDue={system.deliveriesDue} />
      </div>
      <Models models={system.models ?? []} />
      <Diagnostics />
    </>
  );
}

const hintPages = { models: "Models", webhooks: "Webhooks", deliveries: "Deliveries" } as const;

/** Warnings that need attention; announced when they change. */
function Hints({ system }: { readonly system: SystemJson }) {
  const hints = hintsOf(system);
  return (
    <section class="card hints" aria-label="Warnings" aria-live="polite">
      {hints.length === 0 ? (
        <p>
          <Badge tone="good">OK</Badge> No warnings.
        </p>
      ) : (
        <ul>
          {hints.map(({ text, page }) => (
            <li key={text}>
              <Badge tone="busy">Warning</Badge>
              <span>
                {text} {page !== undefined && <PageLink page={page}>Go to {hintPages[page]}</PageLink>}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const latencyTitles: Readonly<Record<string, string>> = {
  request: "Request duration",
  time_to_first_token: "Time to first token",
  queue: "Queue time",
};

const latencyColumns: readonly Column<LatencyJson>[] = [
  { title: "Latency", cell: ({ name = "" }) => latencyTitles[name] ?? name },
  { title: "p50", cell: ({ count, p50Ms }) => quantile(count, p50Ms), isNumber: true },
  { title: "p95", cell: ({ count, p95Ms }) => quantile(count, p95Ms), isNumber: true },
  { title: "p99", cell: ({ count, p99Ms }) => quantile(count, p99Ms), isNumber: true },
  { title: "Requests", cell: ({ count }) => wholeNumber(count), isNumber: true },
];

function Latencies({ latencies }: { readonly latencies: readonly LatencyJson[] }) {
  return (
    <section class="stack" aria-label="Latency">
      <h2>Latency since start</h2>
      <Table caption="Latency since start" columns={latencyColumns} rows={latencies} keyOf={({ name = "" }) => name} />
    </section>
  );
}

function quantile(measured: string | undefined, ms: LatencyJson["p50Ms"]): string {
  return Number(measured ?? 0) === 0 ? "–" : milliseconds(ms);
}

function Service({ system: { version, startedAt, now, listeners = {} } }: { readonly system: SystemJson }) {
  return (
    <section class="card stack" aria-label="Service">
      <h2>Service</h2>
      <Facts
        of={{
          Version: version ?? "",
          Listeners: listeningText(listeners),
          Started: `${time(startedAt)} (${distance(startedAt, now === undefined ? Date.now() : Date.parse(now))})`,
        }}
      />
    </section>
  );
}

function listeningText({ host = "", httpPort = 0, grpcPort = 0, tls = false }: ListenersJson): string {
  return `${host}, HTTP port ${httpPort}, gRPC port ${grpcPort}, TLS ${tls ? "on" : "off"}`;
}

const storeKinds: Readonly<Record<string, string>> = {
  embedded: "Embedded, in the data folder",
  redis: "Redis",
  volatile: "In memory",
};

const durabilities: Readonly<Record<string, string>> = {
  "every-write": "Synced before response",
  "one-second": "Synced every second",
  none: "Not persisted",
};

interface StoreProps {
  readonly state: StateStatusJson;
  readonly deliveriesDue: string | undefined;
}

/** The store of keys, usage and deliveries. */
function Store({ state, deliveriesDue }: StoreProps) {
  const { kind = "", durability = "" } = state;
  return (
    <section class="card stack" aria-label="Store">
      <div class="row spread">
        <h2>Store</h2>
        {state.ok === true ? <Badge tone="good">Available</Badge> : <Badge tone="bad">Unavailable</Badge>}
      </div>
      <Facts
        of={{
          Kind: storeKinds[kind] ?? kind,
          Durability: durabilities[durability] ?? durability,
          "Round trip": milliseconds(state.latencyMs),
          Replicas: wholeNumber(state.replicas ?? 1),
          "Requests not yet recorded": wholeNumber(state.spooled),
          "Deliveries due": wholeNumber(deliveriesDue),
        }}
      />
    </section>
  );
}

const modelColumns: readonly Column<ModelStatusJson>[] = [
  { title: "Model", cell: ({ id }) => <span class="value">{id}</span> },
  { title: "Status", cell: (model) => <ModelState model={model} /> },
  { title: "Active", cell: ({ running, slots }) => `${running ?? 0} of ${slots ?? 0}`, isNumber: true },
  { title: "Queued", cell: ({ waiting }) => wholeNumber(waiting), isNumber: true },
  { title: "Output tokens", cell: ({ producedTokens }) => wholeNumber(producedTokens), isNumber: true },
  { title: "Engine restarts", cell: ({ restarts }) => wholeNumber(restarts), isNumber: true },
];

function Models({ models }: { readonly models: readonly ModelStatusJson[] }) {
  return (
    <section class="stack" aria-label="Models">
      <h2>Models</h2>
      {models.length === 0 ? (
        <Empty>
          No models yet. Pull one with <code>uis models pull SOURCE</code>.
        </Empty>
      ) : (
        <Table caption="Models" columns={modelColumns} rows={models} keyOf={({ id = "" }) => id} />
      )}
    </section>
  );
}
