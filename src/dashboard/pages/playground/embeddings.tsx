import { useState } from "preact/hooks";
import { call } from "../../lib/api.js";
import { Field, textOf } from "../../ui/form.js";
import { type Column, Table } from "../../ui/table.js";
import { similarity, vectorOf } from "./answers.js";
import { Composer, CopyAs } from "./composer.js";
import { embeddingRequest } from "./requests.js";
import { useRun } from "./run.js";
import { RunButtons, RunStatus } from "./run-status.js";

interface Row {
  readonly index: number;
  readonly input: string;
  readonly vector: readonly number[];
  /** Cosine similarity to the first input. */
  readonly similarity: number;
}

const shownValues = 6;

const columns: readonly Column<Row>[] = [
  { title: "Input", cell: ({ input }) => input },
  { title: "Similarity to first", cell: (row) => row.similarity.toFixed(3), isNumber: true },
  { title: "Dimensions", cell: ({ vector }) => vector.length, isNumber: true },
  {
    title: `First ${shownValues} values`,
    cell: ({ vector }) => (
      <span class="value">
        {vector
          .slice(0, shownValues)
          .map((value) => value.toFixed(3))
          .join(" ")}
      </span>
    ),
  },
];

/** Embeds texts and compares them. */
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
      <Composer onSend={ask} buttons={<RunButtons run={run} verb="Embed" />}>
        <Field label="Input" hint="One text per line. Press Ctrl+Enter to send.">
          {(ids) => <textarea {...ids} rows={5} required value={text} onInput={(event) => setText(textOf(event))} />}
        </Field>
      </Composer>
      <RunStatus run={run} />
      {rows.length > 0 && <Table caption="Embeddings" columns={columns} rows={rows} keyOf={({ index }) => index} />}
      <CopyAs request={() => embeddingRequest(model, text || "A text")} />
    </div>
  );
}
