import { useState } from "preact/hooks";
import type { StoredModelJson } from "../../../../gen/unified/admin/v1/stored_model_pb.js";
import { call } from "../../lib/api.js";
import { bytes, time, wholeNumber } from "../../lib/format.js";
import { Confirm, useAction } from "../../ui/action.js";
import { Badge, Problem } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";

export interface StoredTableProps {
  readonly models: readonly StoredModelJson[];
  readonly onChanged: () => void;
}

/** The downloaded models; loads, unloads and removes them. */
export function StoredTable({ models, onChanged }: StoredTableProps) {
  const [removed, setRemoved] = useState<StoredModelJson | null>(null);
  const columns: readonly Column<StoredModelJson>[] = [
    { title: "Model", cell: (model) => <Name model={model} /> },
    {
      title: "Status",
      cell: ({ loaded = false }) =>
        loaded ? <Badge tone="good">Loaded</Badge> : <Badge tone="plain">Not loaded</Badge>,
    },
    { title: "Size", cell: ({ sizeBytes }) => bytes(sizeBytes), isNumber: true },
    { title: "Context", cell: ({ contextLength }) => `${wholeNumber(contextLength)} tokens`, isNumber: true },
    { title: "Licence", cell: ({ license = "" }) => license || "Unknown" },
    { title: "Added", cell: ({ addedAt }) => time(addedAt) },
    {
      title: "",
      cell: (model) => <Actions model={model} onChanged={onChanged} onRemove={() => setRemoved(model)} />,
    },
  ];
  return (
    <>
      <Table caption="Downloaded models" columns={columns} rows={models} keyOf={({ id = "" }) => id} />
      {removed !== null && <Remove model={removed} onRemoved={onChanged} onClose={() => setRemoved(null)} />}
    </>
  );
}

function Name({ model: { id, kind, source, sha256 } }: { readonly model: StoredModelJson }) {
  return (
    <div>
      <span class="value">{id}</span>
      <div class="faint">{kind === "STORED_MODEL_KIND_EMBEDDING" ? "Embedding" : "Text generation"}</div>
      <details>
        <summary>Source</summary>
        <div class="value">{source}</div>
        <div class="value">SHA-256 {sha256}</div>
      </details>
    </div>
  );
}

interface ActionsProps {
  readonly model: StoredModelJson;
  readonly onChanged: () => void;
  readonly onRemove: () => void;
}

function Actions({ model: { id = "", loaded = false }, onChanged, onRemove }: ActionsProps) {
  const { isRunning, error, start } = useAction(async () => {
    await call(`unified.admin.v1.ModelAdminService/${loaded ? "UnloadModel" : "LoadModel"}`, { id });
    onChanged();
  });
  const verb = loaded ? "Unload" : "Load";
  return (
    <div class="stack">
      <div class="row actions">
        <button type="button" aria-label={`${verb} ${id}`} disabled={isRunning} onClick={start}>
          {isRunning ? `${verb}ing…` : verb}
        </button>
        <button type="button" class="danger" aria-label={`Remove ${id}`} disabled={isRunning} onClick={onRemove}>
          Remove
        </button>
      </div>
      <Problem error={error} />
    </div>
  );
}

interface RemoveProps {
  readonly model: StoredModelJson;
  readonly onRemoved: () => void;
  readonly onClose: () => void;
}

function Remove({ model: { id = "", sizeBytes }, onRemoved, onClose }: RemoveProps) {
  const remove = async (): Promise<void> => {
    await call("unified.admin.v1.ModelAdminService/RemoveModel", { id });
    onRemoved();
  };
  return (
    <Confirm title={`Remove ${id}?`} verb="Remove" run={remove} onClose={onClose}>
      <p>
        New requests for this model are rejected; active ones finish. Its file ({bytes(sizeBytes)}) is deleted unless
        another model uses it. To use the model again, pull it again.
      </p>
    </Confirm>
  );
}
