import { useState } from "preact/hooks";
import type { FoundModelJson } from "../../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { call } from "../../lib/api.js";
import { bytes, count, shortNumber } from "../../lib/format.js";
import { useAction } from "../../ui/action.js";
import { Problem } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";

export interface SearchProps {
  /** The words to search for: the text in the source field. */
  readonly words: string;
  readonly onChoose: (source: string) => void;
}

/** Searches short names and the model hub, and takes one of the found models as the source. */
export function Search({ words, onChoose }: SearchProps) {
  const [found, setFound] = useState<readonly FoundModelJson[] | null>(null);
  const { isRunning, error, start } = useAction(async () => {
    const { models = [] } = await call("unified.admin.v1.ModelAdminService/SearchModels", { words: words.trim() });
    setFound(models);
  });
  const choose = (source: string): void => {
    setFound(null);
    onChoose(source);
  };
  return (
    <div class="stack" aria-live="polite">
      <div>
        <button type="button" disabled={isRunning || words.trim() === ""} onClick={start}>
          {isRunning ? "Searching…" : "Search for a model"}
        </button>
      </div>
      <Problem error={error} />
      {found !== null && found.length === 0 && <p class="faint">No model has these words in its name.</p>}
      {found !== null && found.length > 0 && (
        <Table caption="Found models" columns={columnsWith(choose)} rows={found} keyOf={({ source = "" }) => source} />
      )}
    </div>
  );
}

function columnsWith(onChoose: (source: string) => void): readonly Column<FoundModelJson>[] {
  return [
    { title: "Model", cell: (model) => <Found model={model} /> },
    {
      title: "Size",
      cell: ({ approximateBytes }) => (count(approximateBytes) === 0 ? "–" : bytes(approximateBytes)),
      isNumber: true,
    },
    {
      title: "Downloads",
      cell: ({ downloads }) => (count(downloads) === 0 ? "–" : shortNumber(downloads)),
      isNumber: true,
    },
    {
      title: "",
      cell: ({ source = "" }) => (
        <button type="button" class="small" aria-label={`Use ${source}`} onClick={() => onChoose(source)}>
          Use
        </button>
      ),
    },
  ];
}

function Found({ model: { source, license = "", gated = false } }: { readonly model: FoundModelJson }) {
  const facts = [license === "" ? "Licence not stated" : license, ...(gated ? ["needs HF_TOKEN"] : [])];
  return (
    <div>
      <span class="value">{source}</span>
      <div class="faint">{facts.join(", ")}</div>
    </div>
  );
}
