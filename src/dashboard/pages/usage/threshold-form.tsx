import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { ThresholdJson } from "../../../../gen/unified/admin/v1/threshold_pb.js";
import { call } from "../../lib/api.js";
import { Dialog } from "../../ui/dialog.js";
import { Form, Select, TextField } from "../../ui/form.js";
import { Picker } from "../../ui/picker/picker.js";
import {
  actionTitles,
  draftOf,
  limitOf,
  metricTitles,
  newDraft,
  percentsOf,
  periodTitles,
  type ThresholdDraft,
  titleOf,
} from "./threshold.js";

export interface NewThresholdProps {
  readonly account: string;
  /** Null while they are read. */
  readonly keys: readonly ApiKeyJson[] | null;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Creates a threshold for an account or one of its keys. */
export function NewThreshold({ account, keys, onDone, onClose }: NewThresholdProps) {
  const [draft, setDraft] = useState(newDraft);
  const choices = keys
    ?.filter(({ revokedAt }) => revokedAt === undefined)
    .map(({ id = "", name = "", prefix = "", last4 = "" }) => ({
      value: id,
      label: `Key: ${name}`,
      detail: `${prefix}…${last4}`,
    }));
  const change = (part: Partial<ThresholdDraft>): void => setDraft({ ...draft, ...part });
  const send = async (): Promise<void> => {
    const { apiKeyId, metric, period, action } = draft;
    const limit = limitOf(draft);
    const threshold = { account, apiKeyId, metric, period, action, limit, percents: percentsOf(draft) };
    await call("unified.admin.v1.ThresholdService/CreateThreshold", { threshold });
    onDone();
  };
  return (
    <Dialog title={`Add threshold for account “${account}”`} onClose={onClose}>
      <Form verb="Add threshold" send={send} onCancel={onClose}>
        <Picker
          label="Applies to"
          name="api_key_id"
          none="Entire account"
          choices={choices ?? null}
          value={draft.apiKeyId}
          onChange={(apiKeyId) => change({ apiKeyId })}
        />
        <Select label="Metric" titles={metricTitles} value={draft.metric} onChoose={(metric) => change({ metric })} />
        <Select label="Period" titles={periodTitles} value={draft.period} onChoose={(period) => change({ period })} />
        <Limits draft={draft} change={change} />
      </Form>
    </Dialog>
  );
}

export interface EditThresholdProps {
  readonly threshold: ThresholdJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Edits a threshold's limit, percentages and action. The rest cannot change. */
export function EditThreshold({ threshold, onDone, onClose }: EditThresholdProps) {
  const [draft, setDraft] = useState(() => draftOf(threshold));
  const send = async (): Promise<void> => {
    const { id = "" } = threshold;
    const percents = { values: percentsOf(draft) };
    const change = { id, limit: limitOf(draft), percents, action: draft.action };
    await call("unified.admin.v1.ThresholdService/UpdateThreshold", change);
    onDone();
  };
  return (
    <Dialog title={`Edit ${titleOf(threshold)}`} onClose={onClose}>
      <Form verb="Save" send={send} onCancel={onClose}>
        <Limits draft={draft} change={(part) => setDraft({ ...draft, ...part })} />
      </Form>
    </Dialog>
  );
}

interface LimitsProps {
  readonly draft: ThresholdDraft;
  readonly change: (part: Partial<ThresholdDraft>) => void;
}

function Limits({ draft, change }: LimitsProps) {
  const unit = metricTitles[draft.metric] ?? "";
  return (
    <>
      <TextField
        label={draft.metric === "METRIC_COST" ? "Limit (USD)" : `Limit (${unit.toLowerCase()})`}
        name="limit"
        inputMode="decimal"
        required
        value={draft.limit}
        onChange={(limit) => change({ limit })}
      />
      <TextField
        label="Notify at (%)"
        name="percents"
        hint="1 to 10 percentages of the limit, separated by commas."
        required
        value={draft.percents}
        onChange={(percents) => change({ percents })}
      />
      <Select label="Action" titles={actionTitles} value={draft.action} onChoose={(action) => change({ action })} />
    </>
  );
}
