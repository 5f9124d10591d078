import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { ThresholdJson } from "../../../../gen/unified/admin/v1/threshold_pb.js";
import { call } from "../../lib/api.js";
import { useData } from "../../lib/use-data.js";
import { Confirm } from "../../ui/action.js";
import { AdminOnly } from "../../ui/admin-only.js";
import { Badge, Empty, Loading, Problem } from "../../ui/feedback.js";
import { RowMenu } from "../../ui/menu.js";
import { type Column, Table } from "../../ui/table.js";
import { keyNames } from "./sums.js";
import { amount, progressOf, shareOf, titleOf } from "./threshold.js";
import { EditThreshold, NewThreshold } from "./threshold-form.js";

const refreshMs = 5_000;

export interface ThresholdsProps {
  /** The account of new thresholds. */
  readonly account: string;
  /** Null while they are read. */
  readonly keys: readonly ApiKeyJson[] | null;
}

type Opened = { readonly action: "create" } | { readonly action: "edit" | "delete"; readonly threshold: ThresholdJson };

/** Thresholds and budgets of all accounts, with their current usage. */
export function Thresholds({ account, keys }: ThresholdsProps) {
  const [opened, setOpened] = useState<Opened | null>(null);
  const { value, error, reload } = useData(
    (signal) => call("unified.admin.v1.ThresholdService/ListThresholds", {}, signal),
    [],
    refreshMs,
  );
  const thresholds = value?.thresholds ?? [];
  const close = (): void => setOpened(null);
  const done = (): void => {
    close();
    reload();
  };
  return (
    <section class="stack" aria-label="Thresholds and budgets">
      <div class="row spread">
        <h2>Thresholds and budgets</h2>
        <AdminOnly>
          <button type="button" class="primary" onClick={() => setOpened({ action: "create" })}>
            Add threshold
          </button>
        </AdminOnly>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && thresholds.length === 0 && <NoThresholds />}
      {thresholds.length > 0 && (
        <ThresholdTable
          thresholds={thresholds}
          keys={keys ?? []}
          onAction={(action, threshold) => setOpened({ action, threshold })}
        />
      )}
      {opened?.action === "create" && <NewThreshold account={account} keys={keys} onDone={done} onClose={close} />}
      {opened?.action === "edit" && <EditThreshold threshold={opened.threshold} onDone={done} onClose={close} />}
      {opened?.action === "delete" && <DeleteThreshold threshold={opened.threshold} onDone={reload} onClose={close} />}
    </section>
  );
}

function NoThresholds() {
  return (
    <Empty>
      No thresholds yet. Add one here, or with{" "}
      <code>uis thresholds add --metric tokens --period month --limit 1000000</code>. Webhook endpoints subscribed to{" "}
      <code>usage.threshold_reached</code> are notified.
    </Empty>
  );
}

interface DeleteProps {
  readonly threshold: ThresholdJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function DeleteThreshold({ threshold, onDone, onClose }: DeleteProps) {
  const { id = "", action } = threshold;
  const remove = async (): Promise<void> => {
    await call("unified.admin.v1.ThresholdService/DeleteThreshold", { id });
    onDone();
  };
  return (
    <Confirm title="Delete threshold?" verb="Delete" run={remove} onClose={onClose}>
      <p>
        {titleOf(threshold)}
        {action === "ACTION_REFUSE"
          ? ": requests over the limit are accepted again. This cannot be undone."
          : ": no more events are sent for it. This cannot be undone."}
      </p>
    </Confirm>
  );
}

interface ThresholdTableProps {
  readonly thresholds: readonly ThresholdJson[];
  readonly keys: readonly ApiKeyJson[];
  readonly onAction: (action: "edit" | "delete", threshold: ThresholdJson) => void;
}

function ThresholdTable({ thresholds, keys, onAction }: ThresholdTableProps) {
  const nameOf = keyNames(keys);
  const columns: readonly Column<ThresholdJson>[] = [
    { title: "Limit", cell: titleOf },
    {
      title: "Applies to",
      cell: ({ account, apiKeyId = "" }) => (
        <div>
          {account}
          {apiKeyId !== "" && <div class="faint">Key: {nameOf(apiKeyId)}</div>}
        </div>
      ),
    },
    { title: "Used", cell: (threshold) => <Used threshold={threshold} /> },
    { title: "Status", cell: (threshold) => <Status threshold={threshold} /> },
    {
      title: "",
      cell: (threshold) => (
        <RowMenu
          label={`Actions of ${titleOf(threshold)}`}
          items={[
            { label: "Edit", icon: "edit", onSelect: () => onAction("edit", threshold) },
            { label: "Delete", icon: "trash", isDanger: true, onSelect: () => onAction("delete", threshold) },
          ]}
        />
      ),
    },
  ];
  return <Table caption="Thresholds and budgets" columns={columns} rows={thresholds} keyOf={({ id = "" }) => id} />;
}

function Used({ threshold }: { readonly threshold: ThresholdJson }) {
  const { metric, used, limit } = threshold;
  const share = shareOf({ used, limit });
  return (
    <div class="used">
      <progress aria-label={`Usage of ${titleOf(threshold)}`} max={1} value={Math.min(1, share)} />
      <small>
        {amount(metric, used)}, {Math.floor(share * 100)} %
      </small>
    </div>
  );
}

function Status({ threshold }: { readonly threshold: ThresholdJson }) {
  const { tone, text } = progressOf(threshold);
  const { action, percents = [] } = threshold;
  return (
    <div>
      <Badge tone={tone}>{text}</Badge>
      <div class="faint">
        {action === "ACTION_REFUSE" ? "Budget, notify" : "Notify"} at {percents.join(", ")} %
      </div>
    </div>
  );
}
