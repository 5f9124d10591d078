import { useState } from "preact/hooks";
import type { StoredModelJson } from "../../../../gen/unified/admin/v1/stored_model_pb.js";
import { call } from "../../lib/api.js";
import { bytes, wholeNumber } from "../../lib/format.js";
import { Confirm } from "../../ui/action.js";
import { Badge, Problem } from "../../ui/feedback.js";
import { type MenuItem, pageItem, RowMenu } from "../../ui/menu.js";
import { type Column, Table } from "../../ui/table.js";
import { Moment } from "../../ui/values.js";

export interface StoredTableProps {
  readonly models: readonly StoredModelJson[];
  readonly onChanged: () => void;
}

/** A load or unload that is running or has failed. */
interface Switching {
  readonly id: string;
  readonly verb: "Load" | "Unload";
  readonly error: Error | null;
}

/** The downloaded models; loads, unloads and removes them. */
export function StoredTable({ models, onChanged }: StoredTableProps) {
  const [removed, setRemoved] = useState<StoredModelJson | null>(null);
  const [switching, setSwitching] = useState<Switching | null>(null);
  const isBusy = switching !== null && switching.error === null;
  const run = (id: string, verb: Switching["verb"]): void => {
    setSwitching({ id, verb, error: null });
    call(`unified.admin.v1.ModelAdminService/${verb}Model`, { id }).then(
      () => {
        setSwitching(null);
        onChanged();
      },
      (error: Error) => setSwitching({ id, verb, error }),
    );
  };
  const actionsOf = (model: StoredModelJson): readonly MenuItem[] => {
    const { id = "", loaded = false } = model;
    const verb = loaded ? "Unload" : "Load";
    return [
      ...(loaded ? [pageItem("Try in the playground", "playground", { model: id })] : []),
      { label: verb, icon: loaded ? "stop" : "download", isDisabled: isBusy, onSelect: () => run(id, verb) },
      { label: "Remove", icon: "trash", isDanger: true, isDisabled: isBusy, onSelect: () => setRemoved(model) },
    ];
  };
  const columns: readonly Column<StoredModelJson>[] = [
    { title: "Model", cell: (model) => <Name model={model} /> },
    { title: "Status", cell: (model) => <Status model={model} switching={switching} /> },
    { title: "Size", cell: ({ sizeBytes }) => bytes(sizeBytes), isNumber: true },
    { title: "Context", cell: ({ contextLength }) => `${wholeNumber(contextLength)} tokens`, isNumber: true },
    { title: "Licence", cell: ({ license = "" }) => license || "Unknown" },
    { title: "Added", cell: ({ addedAt }) => <Moment at={addedAt} /> },
    {
      title: "",
      cell: (model) => <RowMenu label={`Actions of ${model.id ?? ""}`} items={actionsOf(model)} />,
    },
  ];
  return (
    <>
      <Table caption="Downloaded models" columns={columns} rows={models} keyOf={({ id = "" }) => id} />
      {removed !== null && <Remove model={removed} onRemoved={onChanged} onClose={() => setRemoved(null)} />}
    </>
  );
}

interface StatusProps {
  readonly model: StoredModelJson;
  readonly switching: Switching | null;
}

function Status({ model: { id, loaded = false }, switching }: StatusProps) {
  const own = switching?.id === id ? switching : null;
  const isRunning = own !== null && own.error === null;
  return (
    <div aria-live="polite">
      {isRunning ? (
        <Badge tone="busy">{own.verb}ing…</Badge>
      ) : (
        <Badge tone={loaded ? "good" : "plain"}>{loaded ? "Loaded" : "Not loaded"}</Badge>
      )}
      <Problem error={own?.error ?? null} />
    </div>
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
