import type {
  ListenersJson,
  ModelStatusJson,
  StateStatusJson,
  SystemJson,
} from "../../../../gen/unified/admin/v1/system_pb.js";
import { call } from "../../lib/api.js";
import { distance, milliseconds, time, wholeNumber } from "../../lib/format.js";
import { PageLink, useLocation } from "../../lib/location.js";
import { useCanChange } from "../../lib/session.js";
import { useData } from "../../lib/use-data.js";
import { Badge, Empty, Loading, Problem } from "../../ui/feedback.js";
import { Notice, useDismissed } from "../../ui/notice.js";
import { type Column, Table } from "../../ui/table.js";
import { Tabs } from "../../ui/tabs.js";
import { Facts, ModelState } from "../../ui/values.js";
import { Checklist } from "./checklist.js";
import { ConnectionStatus, useOverview } from "./connection.js";
import { Course } from "./course.js";
import { Diagnostics } from "./diagnostics.js";
import { Figures } from "./figures.js";
import { adviceOf, type Hint, problemsOf } from "./hints.js";
import { historyOf, type RangeName, rangeOf, ranges } from "./history.js";
import "./overview.css";

/** Health, load, latency and cost of the service. */
export function Overview() {
  const range = rangeOf(useLocation().query.get("range"));
  const { system, outputRate, connection, retry } = useOverview();
  const { request, refreshMs } = ranges[range];
  const { value, error, reload } = useData(
    async (signal) => historyOf(await call("unified.admin.v1.SystemService/GetHistory", { range: request }, signal)),
    [request],
    refreshMs,
  );
  return (
    <div class="stack overview">
      <div class="row overview-head">
        <ConnectionStatus connection={connection} at={time(system?.now)} onRetry={retry} />
        <RangeTabs range={range} />
      </div>
      <Problem error={error} onRetry={reload} />
      {(system === null || value === null) && connection.state !== "disconnected" && error === null && <Loading />}
      {system !== null && <Advice system={system} />}
      {system !== null && value !== null && (
        <>
          <Figures system={system} history={value} outputRate={outputRate} />
          <Course range={range} history={value} />
        </>
      )}
      {system !== null && <State system={system} />}
    </div>
  );
}

function RangeTabs({ range }: { readonly range: RangeName }) {
  const tabs = (Object.keys(ranges) as RangeName[]).map((name) => ({
    title: name,
    query: { range: name === "1h" ? "" : name },
    isCurrent: name === range,
  }));
  return <Tabs label="Time range" page="" tabs={tabs} isCompact />;
}

const hintPages = { models: "Models", webhooks: "Webhooks", deliveries: "Deliveries" } as const;

function HintText({ hint: { text, page } }: { readonly hint: Hint }) {
  return (
    <>
      {text} {page !== undefined && <PageLink page={page}>Go to {hintPages[page]}</PageLink>}
    </>
  );
}

/** Current problems; without problems one line of advice, or the first steps, until the user dismisses them. */
function Advice({ system }: { readonly system: SystemJson }) {
  const [dismissed, dismiss] = useDismissed();
  const canChange = useCanChange();
  const problems = problemsOf(system);
  const advice = adviceOf(system).filter(({ text }) => !dismissed.has(text));
  const [next] = advice;
  return (
    <>
      <section class="stack-tight" aria-label="Health" aria-live="polite">
        {problems.map((hint) => (
          <Notice key={hint.text} tone="busy">
            <HintText hint={hint} />
          </Notice>
        ))}
        {problems.length === 0 && <Notice tone="good">{healthText(system)}</Notice>}
      </section>
      {canChange && !dismissed.has("first steps") && (
        <Checklist system={system} onDismiss={() => dismiss("first steps")} />
      )}
      {next !== undefined && (
        <Notice key={next.text} tone="info" onDismiss={() => dismiss(next.text)}>
          <HintText hint={next} />
          {advice.length > 1 && <small> 1 of {advice.length}</small>}
        </Notice>
      )}
    </>
  );
}

function healthText({ models = [], state }: SystemJson): string {
  const ready = models.filter((model) => model.state === "ready").length;
  const replicas = state?.replicas ?? 1;
  const others = replicas > 1 ? ` This is one of ${replicas} replicas.` : "";
  return `Healthy: ${ready} of ${models.length} ${models.length === 1 ? "model" : "models"} ready, store available.${others}`;
}

/** Models, the process, its store and diagnostics, below the figures. */
function State({ system }: { readonly system: SystemJson }) {
  return (
    <>
      <Models models={system.models ?? []} />
      <div class="beside">
        <Service system={system} />
        <Store state={system.state ?? {}} deliveriesDue={system.deliveriesDue} />
      </div>
      <Diagnostics />
    </>
  );
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
