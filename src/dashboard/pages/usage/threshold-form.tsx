import { useState } from "preact/hooks";
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { ThresholdJson } from "../../../../gen/unified/admin/v1/threshold_pb.js";
import { call } from "../../api.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, textOf } from "../../ui/form.js";
import { Select } from "../../ui/select.js";
import { draftOf, limitOf, newDraft, percentsOf, type ThresholdDraft } from "./threshold-draft.js";
import { actionTitles, metricTitles, periodTitles, titleOf } from "./threshold-words.js";

export interface NewThresholdProps {
  readonly account: string;
  readonly keys: readonly ApiKeyJson[];
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Makes a threshold of the account, or of one of its keys. */
export function NewThreshold({ account, keys, onDone, onClose }: NewThresholdProps) {
  const [draft, setDraft] = useState(newDraft);
  const usable = keys.filter(({ revokedAt }) => revokedAt === undefined);
  const change = (part: Partial<ThresholdDraft>): void => setDraft({ ...draft, ...part });
  const send = async (): Promise<void> => {
    const { apiKeyId, metric, period, action } = draft;
    const limit = limitOf(draft);
    const threshold = { account, apiKeyId, metric, period, action, limit, percents: percentsOf(draft) };
    await call("unified.admin.v1.ThresholdService/CreateThreshold", { threshold });
    onDone();
  };
  return (
    <Dialog title={`Add threshold of the account ${account}`} onClose={onClose}>
      <Form verb="Add threshold" send={send} onCancel={onClose}>
        <Field label="Whose use" name="api_key_id">
          {(ids) => (
            <select {...ids} value={draft.apiKeyId} onChange={(event) => change({ apiKeyId: textOf(event) })}>
              <option value="">All of the account</option>
              {usable.map(({ id, name }) => (
                <option key={id} value={id}>
                  The key {name}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Select
          label="What is counted"
          titles={metricTitles}
          value={draft.metric}
          onChoose={(metric) => change({ metric })}
        />
        <Select label="In" titles={periodTitles} value={draft.period} onChoose={(period) => change({ period })} />
        <Limits draft={draft} change={change} />
      </Form>
    </Dialog>
  );
}

export interface ChangeThresholdProps {
  readonly threshold: ThresholdJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Changes what may be changed: limit, shares and what happens. */
export function ChangeThreshold({ threshold, onDone, onClose }: ChangeThresholdProps) {
  const [draft, setDraft] = useState(() => draftOf(threshold));
  const send = async (): Promise<void> => {
    const { id = "" } = threshold;
    const percents = { values: percentsOf(draft) };
    const change = { id, limit: limitOf(draft), percents, action: draft.action };
    await call("unified.admin.v1.ThresholdService/UpdateThreshold", change);
    onDone();
  };
  return (
    <Dialog title={`Change ${titleOf(threshold)}`} onClose={onClose}>
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
      <Field label={`Limit: ${unit.toLowerCase()}`} name="limit">
        {(ids) => (
          <input
            {...ids}
            type="text"
            inputMode="decimal"
            required
            autocomplete="off"
            value={draft.limit}
            onInput={(event) => change({ limit: textOf(event) })}
          />
        )}
      </Field>
      <Field label="Shares that are told" hint="In percent of the limit: 1 to 10 of them." name="percents">
        {(ids) => (
          <input
            {...ids}
            type="text"
            required
            autocomplete="off"
            value={draft.percents}
            onInput={(event) => change({ percents: textOf(event) })}
          />
        )}
      </Field>
      <Select
        label="What happens"
        titles={actionTitles}
        value={draft.action}
        onChoose={(action) => change({ action })}
      />
    </>
  );
}
