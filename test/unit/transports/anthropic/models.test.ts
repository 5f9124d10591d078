import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ModelSchema } from "../../../../gen/unified/catalog/v1/model_pb.js";
import { modelPageJson, readModelPage } from "../../../../src/transports/anthropic/models.js";
import { expectRefusal } from "../openai/refusal.js";

const models = ["a", "b", "c", "d", "e"].map((id) =>
  create(ModelSchema, { id, created: 1_767_225_600n, contextLength: 4_096 }),
);

function page(query: string) {
  const json = modelPageJson(models, readModelPage(`/v1/models${query}`)) as {
    data: { id: string }[];
    has_more: boolean;
    first_id: string | null;
    last_id: string | null;
  };
  return { ...json, data: json.data.map(({ id }) => id).join("") };
}

describe("a page of models", () => {
  it.each([
    ["", "abcde", false],
    ["?limit=2", "ab", true],
    ["?limit=2&after_id=b", "cd", true],
    ["?limit=2&after_id=d", "e", false],
    ["?limit=5", "abcde", false],
    ["?limit=2&before_id=e", "cd", true],
    ["?limit=2&before_id=c", "ab", false],
    ["?after_id=bb", "cde", false],
    ["?beta=true", "abcde", false],
  ])("for the query '%s' has the ids %s (ANT-6)", (query, ids, hasMore) => {
    const at = { first_id: ids.at(0), last_id: ids.at(-1) };
    expect(page(query)).toEqual({ data: ids, has_more: hasMore, ...at });
  });

  it("without models has null as first and last id (ANT-6)", () => {
    expect(page("?after_id=e")).toEqual({ data: "", has_more: false, first_id: null, last_id: null });
  });

  it("has each model's creation time in RFC 3339 and its context length (ANT-6)", () => {
    const { data } = modelPageJson(models, readModelPage("/v1/models?limit=1")) as { data: object[] };
    expect(data).toEqual([
      { type: "model", id: "a", display_name: "a", created_at: "2026-01-01T00:00:00.000Z", max_input_tokens: 4_096 },
    ]);
  });

  it("refuses a limit out of range, and both cursors together (ANT-6)", () => {
    for (const limit of ["0", "1001", "-1", "x", "1.5"]) {
      expectRefusal(() => readModelPage(`/v1/models?limit=${limit}`), "invalid_value", "limit");
    }
    expectRefusal(() => readModelPage("/v1/models?after_id=a&before_id=b"), "invalid_value", "before_id");
  });
});
