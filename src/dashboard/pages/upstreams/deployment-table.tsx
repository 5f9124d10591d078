import { useState } from "preact/hooks";
import type { UpstreamDeploymentJson } from "../../../../gen/unified/admin/v1/upstream_pb.js";
import { call } from "../../lib/api.js";
import { wholeNumber } from "../../lib/format.js";
import { useAction } from "../../ui/action.js";
import { AdminOnly } from "../../ui/admin-only.js";
import { Badge, Problem } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";
import { Moment } from "../../ui/values.js";
import { inOrder, stateOf } from "./upstream.js";

export interface DeploymentTableProps {
  /** Name of the upstream. */
  readonly name: string;
  readonly deployments: readonly UpstreamDeploymentJson[];
  readonly onChanged: () => void;
}

const shownFirst = 20;

/** The deployments at an upstream, each with a button that drains it or ends the draining. */
export function DeploymentTable({ name, deployments, onChanged }: DeploymentTableProps) {
  const [isOpen, setOpen] = useState(false);
  const columns: readonly Column<UpstreamDeploymentJson>[] = [
    { title: "Model", cell: (deployment) => <ModelName deployment={deployment} /> },
    { title: "State", cell: (deployment) => <State deployment={deployment} /> },
    {
      title: "Active",
      cell: ({ outstandingRequests = 0, slots = 0 }) => `${wholeNumber(outstandingRequests)} of ${wholeNumber(slots)}`,
      isNumber: true,
    },
    {
      title: "Outstanding tokens",
      cell: ({ outstandingTokens }) => wholeNumber(outstandingTokens),
      isNumber: true,
    },
    { title: "Weight", cell: ({ weight }) => wholeNumber(weight), isNumber: true },
    { title: "Priority", cell: ({ priority }) => wholeNumber(priority), isNumber: true },
    { title: "", cell: (deployment) => <Drain deployment={deployment} onChanged={onChanged} /> },
  ];
  const all = inOrder(deployments);
  return (
    <>
      <Table
        caption={`Deployments of ${name}`}
        columns={columns}
        rows={isOpen ? all : all.slice(0, shownFirst)}
        keyOf={({ id = "" }) => id}
      />
      {!isOpen && all.length > shownFirst && (
        <div>
          <button type="button" onClick={() => setOpen(true)}>
            Show all {all.length} deployments
          </button>
        </div>
      )}
    </>
  );
}

function ModelName({
  deployment: { model = "", upstreamModel = "" },
}: {
  readonly deployment: UpstreamDeploymentJson;
}) {
  return (
    <div>
      <span class="value">{model}</span>
      {upstreamModel !== model && <div class="faint value">{upstreamModel} at the upstream</div>}
    </div>
  );
}

function State({ deployment }: { readonly deployment: UpstreamDeploymentJson }) {
  const { reason = "", until } = deployment;
  const [tone, word] = stateOf(deployment);
  return (
    <div>
      <Badge tone={tone}>{word}</Badge>
      {reason !== "" && <div class="faint">{reason}</div>}
      {until !== undefined && (
        <div class="faint">
          Ends <Moment at={until} />
        </div>
      )}
    </div>
  );
}

interface DrainProps {
  readonly deployment: UpstreamDeploymentJson;
  readonly onChanged: () => void;
}

/** Running requests end normally, and draining can be undone, so it needs no confirmation. */
function Drain({ deployment: { id = "", state }, onChanged }: DrainProps) {
  const isDraining = state === "draining";
  const { isRunning, error, start } = useAction(async () => {
    await call("unified.admin.v1.UpstreamService/DrainDeployment", { id, drain: !isDraining });
    onChanged();
  });
  const verb = isDraining ? "Undo drain" : "Drain";
  return (
    <div class="stack">
      <div class="row actions">
        <AdminOnly>
          <button type="button" aria-label={`${verb} ${id}`} disabled={isRunning} onClick={start}>
            {verb}
          </button>
        </AdminOnly>
      </div>
      <Problem error={error} />
    </div>
  );
}
