import type { ModelStatusJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import type { ModelJson } from "../../../../gen/unified/catalog/v1/model_pb.js";
import { wholeNumber } from "../../format.js";
import { ModelState } from "../../ui/model-state.js";
import { PageLink } from "../../ui/page-link.js";
import { type Column, Table } from "../../ui/table.js";

export interface CatalogTableProps {
  readonly models: readonly ModelJson[];
  readonly states: readonly ModelStatusJson[];
}

/** The models that requests may name. */
export function CatalogTable({ models, states }: CatalogTableProps) {
  const stateOf = new Map(states.map((state) => [state.id, state]));
  const columns: readonly Column<ModelJson>[] = [
    {
      title: "Model",
      cell: ({ id, ownedBy }) => (
        <div>
          <span class="value">{id}</span>
          <div class="faint">by {ownedBy}</div>
        </div>
      ),
    },
    { title: "State", cell: ({ id }) => <ModelState model={stateOf.get(id) ?? {}} /> },
    { title: "Does", cell: abilities },
    { title: "Context", cell: ({ contextLength }) => `${wholeNumber(contextLength)} tokens`, isNumber: true },
    {
      title: "Running",
      cell: ({ id }) => `${stateOf.get(id)?.running ?? 0} of ${stateOf.get(id)?.slots ?? 0}`,
      isNumber: true,
    },
    { title: "Waiting", cell: ({ id }) => wholeNumber(stateOf.get(id)?.waiting), isNumber: true },
    {
      title: "",
      cell: ({ id = "" }) => (
        <div class="actions">
          <PageLink page="playground" query={{ model: id }} isButton label={`Try ${id}`}>
            Try
          </PageLink>
        </div>
      ),
    },
  ];
  return <Table caption="Catalog" columns={columns} rows={models} keyOf={({ id = "" }) => id} />;
}

const callers: Readonly<Record<string, string>> = {
  auto: "calls tools",
  "forced-only": "calls tools when told to",
  none: "calls no tools",
};

function abilities({ capabilities = [], dimensions, toolCalling }: ModelJson) {
  const more = [
    ...(dimensions === undefined ? [] : [`${wholeNumber(dimensions)} dimensions`]),
    ...(toolCalling === undefined ? [] : [callers[toolCalling] ?? toolCalling]),
  ];
  return (
    <div>
      {capabilities.join(", ")}
      {more.length > 0 && <div class="faint">{more.join(", ")}</div>}
    </div>
  );
}
