import { Document, isMap, isScalar, isSeq, type Node, Scalar, visit } from "yaml";
import type { LiteLlmImport } from "./import-config.js";
import { type Note, noteLine, type Subject } from "./notes.js";

const heading = [
  "From a LiteLLM configuration, by `uis config import litellm`. Check the lines that begin with `to do`, then the file:",
  "uis config check FILE",
];

/** The configuration as YAML, with a comment for every note where it belongs. */
export function renderConfig({ config, notes }: LiteLlmImport): string {
  const document = new Document(config, { aliasDuplicateObjects: false });
  // A value with a reference is quoted, so that it is text for any content of the variable.
  visit(document, {
    Scalar(key, node) {
      if (key !== "key" && typeof node.value === "string" && node.value.includes("${")) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  const about = (of: Subject | null) =>
    new Set(notes.filter((note) => note.of?.list === of?.list && note.of?.name === of?.name).map(noteLine));
  const comment = (node: Node, of: Subject) => {
    const lines = about(of);
    if (lines.size > 0) node.commentBefore = asComment([...lines]);
  };
  const { upstreams, models } = config;
  const upstreamsNode = document.get("upstreams", true);
  if (isMap(upstreamsNode)) {
    for (const { key } of upstreamsNode.items) {
      if (isScalar(key)) comment(key, { list: "upstreams", name: String(key.value) });
    }
  }
  const modelsNode = document.get("models", true);
  if (isSeq(modelsNode)) {
    modelsNode.items.forEach((item, i) => {
      comment(item as Node, { list: "models", name: models[i]?.id ?? "" });
    });
  }
  const unplaced = notes.filter(({ of }) => of !== null && !isPlaced(of, Object.keys(upstreams), models));
  document.commentBefore = asComment([...heading, ...about(null), ...new Set(unplaced.map(noteLine))]);
  return document.toString({ lineWidth: 0 });
}

function isPlaced(of: Subject, upstreams: readonly string[], models: readonly { readonly id: string }[]): boolean {
  return of.list === "upstreams" ? upstreams.includes(of.name) : models.some(({ id }) => id === of.name);
}

function asComment(lines: readonly string[]): string {
  return lines.map((line) => ` ${line}`).join("\n");
}

/** A sentence with counts, and how many notes of each sort there are. */
export function countsLine({ config, notes, entries }: LiteLlmImport): string {
  const deployments = config.models.reduce((sum, model) => sum + model.deployments.length, 0);
  const count = (sort: Note["sort"]) => notes.filter((note) => note.sort === sort).length;
  return (
    `model_list has ${entries} entries: ${config.models.length} models with ${deployments} deployments on ` +
    `${Object.keys(config.upstreams).length} upstreams. ` +
    `To do: ${count("to do")}; changed: ${count("changed")}; left out: ${count("left out")}.`
  );
}
