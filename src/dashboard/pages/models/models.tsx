import { AdminOnly } from "../../ui/admin-only.js";
import "./models.css";
import { useState } from "preact/hooks";
import type { ModelStatusJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import type { ModelJson } from "../../../../gen/unified/catalog/v1/model_pb.js";
import { call } from "../../lib/api.js";
import { wholeNumber } from "../../lib/format.js";
import { PageLink } from "../../lib/location.js";
import { useData } from "../../lib/use-data.js";
import { Empty, Loading, Problem } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";
import { ModelState } from "../../ui/values.js";
import { isRunning, PullCards, PullForm } from "./pull.js";
import { StoredTable } from "./stored-table.js";

const refreshMs = 3_000;
const pullingRefreshMs = 1_000;

/** The catalog, the downloaded models, and pulling another one. */
export function Models() {
  const [isAsking, setAsking] = useState(false);
  const [isPulling, setPulling] = useState(false);
  const { value, error, reload } = useData(read, [], isPulling ? pullingRefreshMs : refreshMs);
  const running = value?.pulls.some(isRunning) ?? false;
  if (running !== isPulling) setPulling(running);
  return (
    <div class="stack models">
      <div class="row spread">
        <h2>Catalog</h2>
        <AdminOnly>
          <button type="button" class="primary" onClick={() => setAsking(true)}>
            Pull a model
          </button>
        </AdminOnly>
      </div>
      <PullCards pulls={value?.pulls ?? []} onChanged={reload} />
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && (
        <>
          {value.catalog.length === 0 ? <NoModels /> : <CatalogTable models={value.catalog} states={value.states} />}
          <h2>Downloaded</h2>
          {value.stored.length === 0 ? <NoStoredModels /> : <StoredTable models={value.stored} onChanged={reload} />}
        </>
      )}
      {isAsking && <PullForm onStarted={reload} onClose={() => setAsking(false)} />}
    </div>
  );
}

function NoModels() {
  return (
    <Empty>
      The catalog is empty. Pull a model here, or with <code>uis models pull SOURCE</code>.
    </Empty>
  );
}

function NoStoredModels() {
  return (
    <Empty>
      No downloaded models. Add one with <code>uis models pull SOURCE</code> or <code>uis models import FILE</code>.
    </Empty>
  );
}

async function read(signal: AbortSignal) {
  const [{ models: catalog = [] }, { system = {} }, { models: stored = [] }, { pulls = [] }] = await Promise.all([
    call("unified.catalog.v1.CatalogService/ListModels", {}, signal),
    call("unified.admin.v1.SystemService/GetSystem", {}, signal),
    call("unified.admin.v1.ModelAdminService/ListStoredModels", {}, signal),
    call("unified.admin.v1.ModelAdminService/ListPulls", {}, signal),
  ]);
  return { catalog, states: system.models ?? [], stored, pulls };
}

interface CatalogTableProps {
  readonly models: readonly ModelJson[];
  readonly states: readonly ModelStatusJson[];
}

/** The models that requests can use. */
function CatalogTable({ models, states }: CatalogTableProps) {
  const stateOf = new Map(states.map((state) => [state.id, state]));
  const columns: readonly Column<ModelJson>[] = [
    {
      title: "Model",
      cell: ({ id, ownedBy }) => (
        <div>
          <span class="value">{id}</span>
          <div class="faint">Owner: {ownedBy}</div>
        </div>
      ),
    },
    { title: "Status", cell: ({ id }) => <ModelState model={stateOf.get(id) ?? {}} /> },
    { title: "Capabilities", cell: capabilitiesOf },
    { title: "Context", cell: ({ contextLength }) => `${wholeNumber(contextLength)} tokens`, isNumber: true },
    {
      title: "Active",
      cell: ({ id }) => `${stateOf.get(id)?.running ?? 0} of ${stateOf.get(id)?.slots ?? 0}`,
      isNumber: true,
    },
    { title: "Queued", cell: ({ id }) => wholeNumber(stateOf.get(id)?.waiting), isNumber: true },
    {
      title: "",
      cell: ({ id = "" }) => (
        <div class="row-menu">
          <PageLink page="playground" query={{ model: id }} isButton label={`Try ${id}`}>
            Try
          </PageLink>
        </div>
      ),
    },
  ];
  return <Table caption="Catalog" columns={columns} rows={models} keyOf={({ id = "" }) => id} />;
}

const toolSupport: Readonly<Record<string, string>> = {
  auto: "tool calling",
  "forced-only": "tool calling only when forced",
  none: "no tool calling",
};

function capabilitiesOf({ capabilities = [], dimensions, toolCalling }: ModelJson) {
  const more = [
    ...(dimensions === undefined ? [] : [`${wholeNumber(dimensions)} dimensions`]),
    ...(toolCalling === undefined ? [] : [toolSupport[toolCalling] ?? toolCalling]),
  ];
  return (
    <div class="lines">
      <div>{capabilities.join(", ")}</div>
      {more.length > 0 && <div class="faint">{more.join(", ")}</div>}
    </div>
  );
}
