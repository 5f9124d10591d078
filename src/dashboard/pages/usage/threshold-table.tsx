import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { ThresholdJson } from "../../../../gen/unified/admin/v1/threshold_pb.js";
import { Badge } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";
import { amount, shareOf, standingOf, titleOf } from "./threshold-words.js";
import { keyNames } from "./use-keys.js";

export interface ThresholdTableProps {
  readonly thresholds: readonly ThresholdJson[];
  readonly keys: readonly ApiKeyJson[];
  readonly onAction: (action: "change" | "delete", threshold: ThresholdJson) => void;
}

export function ThresholdTable({ thresholds, keys, onAction }: ThresholdTableProps) {
  const nameOf = keyNames(keys);
  const columns: readonly Column<ThresholdJson>[] = [
    { title: "Limit", cell: titleOf },
    {
      title: "Of",
      cell: ({ account, apiKeyId = "" }) => (
        <div>
          {account}
          {apiKeyId !== "" && <div class="faint">key {nameOf(apiKeyId)}</div>}
        </div>
      ),
    },
    { title: "Used", cell: (threshold) => <Used threshold={threshold} /> },
    { title: "Standing", cell: (threshold) => <Standing threshold={threshold} /> },
    {
      title: "",
      cell: (threshold) => (
        <div class="row actions">
          <Do verb="Change" threshold={threshold} run={() => onAction("change", threshold)} />
          <Do verb="Delete" threshold={threshold} run={() => onAction("delete", threshold)} />
        </div>
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
      <progress aria-label={`Used of ${titleOf(threshold)}`} max={1} value={Math.min(1, share)} />
      <small>
        {amount(metric, used)}, {Math.floor(share * 100)} %
      </small>
    </div>
  );
}

function Standing({ threshold }: { readonly threshold: ThresholdJson }) {
  const { tone, text } = standingOf(threshold);
  const { action, percents = [] } = threshold;
  return (
    <div>
      <Badge tone={tone}>{text}</Badge>
      <div class="faint">
        {action === "ACTION_REFUSE" ? "Budget; told" : "Told"} at {percents.join(", ")} %
      </div>
    </div>
  );
}

interface DoProps {
  readonly verb: string;
  readonly threshold: ThresholdJson;
  readonly run: () => void;
}

function Do({ verb, threshold, run }: DoProps) {
  return (
    <button type="button" aria-label={`${verb} ${titleOf(threshold)}`} onClick={run}>
      {verb}
    </button>
  );
}
