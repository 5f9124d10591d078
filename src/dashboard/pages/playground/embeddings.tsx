import { useState } from "preact/hooks";
import { call } from "../../api.js";
import { Field, textOf } from "../../ui/form.js";
import { type Column, Table } from "../../ui/table.js";
import { Composer } from "./composer.js";
import { CopyAs } from "./copy-as.js";
import { embeddingRequest } from "./requests.js";
import { useRun } from "./run.js";
import { RunButtons, RunStatus } from "./run-status.js";
import { similarity, vectorOf } from "./vectors.js";

interface Row {
  readonly index: number;
  readonly input: string;
  readonly vector: readonly number[];
  /** With the first input. */
  readonly similarity: number;
}

const shownNumbers = 6;

const columns: readonly Column<Row>[] = [
  { title: "Input", cell: ({ input }) => input },
  { title: "Like the first", cell: (row) => row.similarity.toFixed(3), isNumber: true },
  { title: "Numbers", cell: ({ vector }) => vector.length, isNumber: true },
  {
    title: "Vector begins",
    cell: ({ vector }) => (
      <span class="value">
        {vector
          .slice(0, shownNumbers)
          .map((value) => value.toFixed(3))
          .join(" ")}
      </span>
    ),
  },
];

/** Texts as vectors, and how alike they are. */
export function Embeddings({ model }: { readonly model: string }) {
  const [text, setText] = useState("");
  const [rows, setRows] = useState<readonly Row[]>([]);
  const run = useRun();

  const ask = (): void => {
    const { params } = embeddingRequest(model, text);
    run.start(async (signal) => {
      const rpc = "unified.inference.v1.InferenceService/CreateEmbeddings";
      const { embeddings = {} } = await call(rpc, { params }, signal);
      const vectors = (embeddings.data ?? []).map(({ vector = "" }) => vectorOf(vector));
      setRows(
        vectors.map((vector, index) => ({
          index,
          input: params.input?.[index] ?? "",
          vector,
          similarity: similarity(vectors[0] ?? [], vector),
        })),
      );
    });
  };

  return (
    <div class="stack">
      <Composer onSend={ask} buttons={<RunButtons run={run} verb="Make vectors" />}>
        <Field label="Texts, one a line" hint="Ctrl and Enter send them.">
          {(ids) => <textarea {...ids} rows={5} required value={text} onInput={(event) => setText(textOf(event))} />}
        </Field>
      </Composer>
      <RunStatus run={run} />
      {rows.length > 0 && <Table caption="Vectors" columns={columns} rows={rows} keyOf={({ index }) => index} />}
      <CopyAs request={() => embeddingRequest(model, text || "A text")} />
    </div>
  );
}
