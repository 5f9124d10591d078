import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { ThresholdJson } from "../../../../gen/unified/admin/v1/threshold_pb.js";
import { call } from "../../api.js";
import { Confirm } from "../../ui/action.js";
import { Empty, Loading, Problem } from "../../ui/feedback.js";
import { useData } from "../../use-data.js";
import { ChangeThreshold, NewThreshold } from "./threshold-form.js";
import { ThresholdTable } from "./threshold-table.js";
import { titleOf } from "./threshold-words.js";

const everyMs = 5_000;

export interface ThresholdsProps {
  /** Whose a new one becomes. */
  readonly account: string;
  readonly keys: readonly ApiKeyJson[];
}

type Opened =
  | { readonly action: "create" }
  | { readonly action: "change" | "delete"; readonly threshold: ThresholdJson };

/** Limits of use that are told or enforced, of all accounts, and how near each is. */
export function Thresholds({ account, keys }: ThresholdsProps) {
  const [opened, setOpened] = useState<Opened | null>(null);
  const { value, error, reload } = useData(
    (signal) => call("unified.admin.v1.ThresholdService/ListThresholds", {}, signal),
    [],
    everyMs,
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
        <button type="button" class="primary" onClick={() => setOpened({ action: "create" })}>
          Add threshold
        </button>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && thresholds.length === 0 && <NoThresholds />}
      {thresholds.length > 0 && (
        <ThresholdTable
          thresholds={thresholds}
          keys={keys}
          onAction={(action, threshold) => setOpened({ action, threshold })}
        />
      )}
      {opened?.action === "create" && <NewThreshold account={account} keys={keys} onDone={done} onClose={close} />}
      {opened?.action === "change" && <ChangeThreshold threshold={opened.threshold} onDone={done} onClose={close} />}
      {opened?.action === "delete" && <DeleteThreshold threshold={opened.threshold} onDone={reload} onClose={close} />}
    </section>
  );
}

function NoThresholds() {
  return (
    <Empty>
      No threshold yet. Add one here, or with{" "}
      <code>uis thresholds add --metric tokens --period month --limit 1000000</code>: the event{" "}
      <code>usage.threshold_reached</code> then goes to webhooks that asked for it.
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
    <Confirm title="Delete threshold" verb="Delete" run={remove} onClose={onClose}>
      <p>
        {titleOf(threshold)}
        {action === "ACTION_REFUSE"
          ? ": requests beyond it will be answered again. This cannot be undone."
          : ": nobody is told any more when it is reached. This cannot be undone."}
      </p>
    </Confirm>
  );
}
