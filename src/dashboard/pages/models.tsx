import { useState } from "preact/hooks";
import { call } from "../api.js";
import { Empty, Loading, Problem } from "../ui/feedback.js";
import { useData } from "../use-data.js";
import { CatalogTable } from "./models/catalog-table.js";
import { PullCard } from "./models/pull-card.js";
import { PullForm } from "./models/pull-form.js";
import { usePull } from "./models/pulls.js";
import { StoredTable } from "./models/stored-table.js";
import "./models/models.css";

const everyMs = 3_000;

/** What requests may name, what is kept, and how more is got. */
export function Models() {
  const [isAsking, setAsking] = useState(false);
  const isPulling = usePull()?.state === "running";
  const { value, error, reload } = useData(read, [], everyMs);
  return (
    <div class="stack models">
      <div class="row spread">
        <h2>Catalog</h2>
        <button type="button" class="primary" disabled={isPulling} onClick={() => setAsking(true)}>
          Pull a model
        </button>
      </div>
      <PullCard onEnd={reload} />
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && (
        <>
          {value.catalog.length === 0 ? <NoModels /> : <CatalogTable models={value.catalog} states={value.states} />}
          <h2>Kept on this machine</h2>
          {value.stored.length === 0 ? <NothingStored /> : <StoredTable models={value.stored} onChanged={reload} />}
        </>
      )}
      {isAsking && <PullForm onClose={() => setAsking(false)} />}
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

function NothingStored() {
  return (
    <Empty>
      No model's file is kept. <code>uis models pull SOURCE</code> and <code>uis models import FILE</code> keep one.
    </Empty>
  );
}

async function read(signal: AbortSignal) {
  const [{ models: catalog = [] }, { system = {} }, { models: stored = [] }] = await Promise.all([
    call("unified.catalog.v1.CatalogService/ListModels", {}, signal),
    call("unified.admin.v1.SystemService/GetSystem", {}, signal),
    call("unified.admin.v1.ModelAdminService/ListStoredModels", {}, signal),
  ]);
  return { catalog, states: system.models ?? [], stored };
}
