import type { ModelStatusJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { wholeNumber } from "../../format.js";
import { Empty } from "../../ui/feedback.js";
import { ModelState } from "../../ui/model-state.js";
import { type Column, Table } from "../../ui/table.js";

const columns: readonly Column<ModelStatusJson>[] = [
  { title: "Model", cell: ({ id }) => <span class="value">{id}</span> },
  { title: "State", cell: (model) => <ModelState model={model} /> },
  { title: "Running", cell: ({ running, slots }) => `${running ?? 0} of ${slots ?? 0}`, isNumber: true },
  { title: "Waiting", cell: ({ waiting }) => wholeNumber(waiting), isNumber: true },
  { title: "Tokens written", cell: ({ producedTokens }) => wholeNumber(producedTokens), isNumber: true },
  { title: "Engine restarts", cell: ({ restarts }) => wholeNumber(restarts), isNumber: true },
];

/** What runs each model, and how busy it is. */
export function Engines({ models }: { readonly models: readonly ModelStatusJson[] }) {
  return (
    <section class="stack" aria-label="Models and engines">
      <h2>Models and engines</h2>
      {models.length === 0 ? (
        <Empty>
          No model yet. <code>uis models pull SOURCE</code> fetches one.
        </Empty>
      ) : (
        <Table caption="Models and engines" columns={columns} rows={models} keyOf={({ id = "" }) => id} />
      )}
    </section>
  );
}
