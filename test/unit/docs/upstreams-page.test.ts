import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { configSchema } from "../../../src/app/config/schema.js";
import type { Constraint } from "../../../src/domain/engine/text-format.js";
import { upstreamKinds } from "../../../src/domain/engine/upstream.js";
import { keptConstraints } from "../../../src/engines/openai/protocol/format-fields.js";
import { type KindProfile, kindProfiles, type RequestDialect } from "../../../src/engines/openai/protocol/kinds.js";

const page = readFileSync("docs/upstreams.md", "utf8");

/** Features of requests in the order of the page, with the text of the table cell for a kind of server. */
const needs: readonly (readonly [string, (profile: KindProfile) => string])[] = [
  ["`/v1/completions`", ({ abilities }) => no(abilities.completion)],
  ["embeddings", ({ abilities }) => no(abilities.embeddings)],
  ["embeddings with `dimensions`", ({ abilities }) => no(abilities.shortenableEmbeddings)],
  ["reranking", ({ abilities }) => no(abilities.rerank)],
  ["forced tools", ({ abilities }) => no(abilities.toolChoice)],
  ["`strict` tools", ({ api, abilities }) => (api === "messages" ? "by model" : no(abilities.grammar))],
  ["`parallel_tool_calls: false`", ({ dialect }) => leftOut(dialect.parallelToolCalls)],
  ["`json_object`", ({ abilities }) => no(abilities.jsonObject)],
  [
    "`json_schema`",
    ({ api, abilities }) =>
      api === "messages" ? "by model" : { full: "", subset: "partly", none: "no" }[abilities.jsonSchema],
  ],
  [
    "`guided_choice`, `grammar`, `ignore_eos`",
    ({ dialect }) => no(keeps(dialect, ["choice", "grammar", "ignore_eos"])),
  ],
  ["`guided_regex`, `min_tokens`", ({ dialect }) => no(keeps(dialect, ["regex", "min_tokens"]))],
  ["`logprobs`", ({ abilities }) => no(abilities.logprobs > 0)],
  ["`echo` with `logprobs`", ({ abilities }) => no(abilities.echoLogprobs)],
  ["`logit_bias`", ({ abilities }) => no(abilities.logitBias)],
  ["penalties", ({ abilities }) => no(abilities.penalties)],
  ["`n`", ({ abilities }) => (abilities.nativeN ? "" : "repeated")],
  ["audio", ({ abilities }) => no(abilities.audio)],
  ["token ids as prompt", ({ abilities }) => no(abilities.tokenInput !== "none")],
  ["token ids for embeddings", ({ abilities }) => no(abilities.tokenInput === "all")],
  [
    "`top_k`, `min_p`, `repetition_penalty`",
    ({ dialect }) => leftOut([dialect.topK, dialect.minP, dialect.repetitionPenalty].every((name) => name !== null)),
  ],
  ["`chat_template_kwargs`", ({ dialect }) => leftOut(dialect.chatTemplateKwargs)],
  ["`reasoning_effort`", ({ dialect }) => leftOut(dialect.reasoningEffort)],
  ["a list of models", ({ listsModels }) => no(listsModels)],
];

function keeps({ formatFields }: RequestDialect, constraints: readonly Constraint[]): boolean {
  return formatFields !== null && constraints.every((name) => keptConstraints[formatFields].includes(name));
}

const no = (can: boolean): string => (can ? "" : "no");
const leftOut = (has: boolean): string => (has ? "" : "left out");
const line = (cells: readonly string[]): string =>
  `|${cells.map((cell) => (cell === "" ? " " : ` ${cell} `)).join("|")}|`;

describe("docs/upstreams.md", () => {
  it("lists the missing features of each kind, equal to the profiles in the source", () => {
    const [, section = ""] = page.split("## What each kind cannot do\n");
    const [, table = ""] = (section.split("\n## ")[0] ?? "").split(/\n\n(?=\| \| )/);
    const shown = table.split("\n").filter((text) => text.startsWith("|"));
    const rows = needs.map(([need, cell]) => line([need, ...upstreamKinds.map((kind) => cell(kindProfiles[kind]))]));
    expect(shown).toEqual([line(["", ...upstreamKinds]), line(["", ...upstreamKinds].map(() => "---")), ...rows]);
  });

  it("has one example for each kind, which is a complete configuration", () => {
    const examples = [...page.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => parse(text) as unknown);
    const problems = examples.flatMap((example) => configSchema.safeParse(example).error?.issues ?? []);
    expect(problems).toEqual([]);
    const kinds = examples.flatMap((example) =>
      Object.values(configSchema.parse(example).upstreams).map(({ kind }) => kind),
    );
    expect([...new Set(kinds)].sort()).toEqual([...upstreamKinds].sort());
  });
});
