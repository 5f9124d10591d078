import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ErrorCode } from "../../../src/contract/errors.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError } from "./api.js";

const bad: readonly (readonly [title: string, fields: object, code: ErrorCode, param: string])[] = [
  ["no query (RANK-1)", { query: undefined }, "missing_required_parameter", "query"],
  ["an empty query (RANK-1)", { query: "" }, "missing_required_parameter", "query"],
  ["a query of another type (RANK-1, GEN-8)", { query: ["a"] }, "invalid_type", "query"],
  ["no documents (RANK-1)", { documents: null }, "missing_required_parameter", "documents"],
  ["an empty list (RANK-1)", { documents: [] }, "empty_array", "documents"],
  ["one text in place of a list (RANK-1, GEN-8)", { documents: "a" }, "invalid_type", "documents"],
  ["a document of another type (RANK-1, GEN-8)", { documents: ["a", 5] }, "invalid_type", "documents[1]"],
  ["a document that is null (RANK-1)", { documents: [null] }, "invalid_type", "documents[0]"],
  ["a document that is a list (RANK-1)", { documents: [["a"]] }, "invalid_type", "documents[0]"],
  ["a document without a text (RANK-1)", { documents: [{}] }, "missing_required_parameter", "documents[0].text"],
  ["a text of another type (RANK-1, GEN-8)", { documents: [{ text: 1 }] }, "invalid_type", "documents[0].text"],
  ["an empty document (RANK-1)", { documents: ["a", { text: "" }] }, "invalid_value", "documents[1]"],
  ["1,001 documents (RANK-1, SEC-8)", { documents: Array(1_001).fill("a") }, "array_above_max_length", "documents"],
  ["more than 8 MiB (RANK-1, SEC-8)", { documents: ["a".repeat(8 * 1024 * 1024)] }, "invalid_value", "documents"],
  ["no results (RANK-4)", { top_n: 0 }, "integer_below_min_value", "top_n"],
  ["a top_n of another type (RANK-4, GEN-8)", { top_n: "1" }, "invalid_type", "top_n"],
  ["a return_documents of another type (RANK-5, GEN-8)", { return_documents: 1 }, "invalid_type", "return_documents"],
  [
    "a document longer than the context (RANK-7, ERR-9)",
    { documents: ["a", "b ".repeat(64)] },
    "context_length_exceeded",
    "documents[1]",
  ],
  ["no model (GEN-13)", { model: null }, "missing_required_parameter", "model"],
  ["a chat model (GEN-13)", { model: "test-chat" }, "model_not_supported", "model"],
];

describe("the REST API of rerank", () => {
  let service: RunningService;
  let api: Api;

  beforeAll(async () => {
    service = await startService({
      config: {
        models: [
          { id: "test-rerank", engine: "scripted", scripted: { rerank: true, context_length: 64 } },
          { id: "by-capability", engine: "scripted", capabilities: ["rerank"] },
          { id: "test-chat", engine: "scripted", scripted: { text: "x" } },
        ],
      },
    });
    api = createApi(service);
  });
  afterAll(() => service.close());

  it.each(bad)("%s is rejected", async (_, fields, code, param) => {
    expectError(await api.rerank(fields), 400, code, param);
  });

  it("the answer has exactly these fields, best first (RANK-2, RANK-3, RANK-5, RANK-6, RANK-8)", async () => {
    const { status, json, headers } = await api.rerank({
      query: "capital of France",
      documents: ["Berlin", { text: "Paris is the capital of France.", title: "ignored" }, "of France"],
    });
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("application/json");
    expect(json).toEqual({
      id: expect.stringMatching(/^rerank-/),
      model: "test-rerank",
      results: [
        { index: 1, relevance_score: 1, document: { text: "Paris is the capital of France." } },
        { index: 2, relevance_score: 2 / 3, document: { text: "of France" } },
        { index: 0, relevance_score: 0, document: { text: "Berlin" } },
      ],
      usage: { prompt_tokens: 3 + 1 + 6 + 2, total_tokens: 12 },
      meta: { tokens: { input_tokens: 12 } },
    });
  });

  it("equal scores keep the order of the request (RANK-3)", async () => {
    const { results } = (await api.rerank({ query: "b", documents: ["a", "b", "a b", "c"] })).json;
    expect(results.map(({ index }: { index: number }) => index)).toEqual([1, 2, 0, 3]);
  });

  it("top_n limits the results, and null counts as absent (RANK-4, GEN-7)", async () => {
    const count = async (top_n: unknown) =>
      (await api.rerank({ documents: ["a", "b", "c"], top_n })).json.results.length;
    expect([await count(1), await count(3), await count(4), await count(null)]).toEqual([1, 3, 3, 3]);
  });

  it("the answer omits documents on request (RANK-5)", async () => {
    const { results } = (await api.rerank({ return_documents: false })).json;
    expect(results).toEqual([{ index: 0, relevance_score: 0.5 }]);
  });

  it("fields of other services are ignored (GEN-10)", async () => {
    const fields = { truncate_prompt_tokens: 5, max_chunks_per_doc: 2, rank_fields: ["text"], truncation: true };
    expect((await api.rerank(fields)).status).toBe(200);
  });

  it("a model is listed with its capability, also one that the configuration makes a reranking model (MODEL-10)", async () => {
    for (const id of ["test-rerank", "by-capability"]) {
      expect((await api.get(`/v1/models/${id}`)).json.capabilities).toEqual(["rerank"]);
      expect((await api.rerank({ model: id })).status).toBe(200);
    }
    expectError(await api.chat({ model: "test-rerank" }), 400, "model_not_supported", "model");
  });

  it("1,000 documents are ranked while other requests are served (RANK-1)", async () => {
    const documents = Array.from({ length: 1_000 }, (_, i) => (i === 999 ? "needle" : `hay number ${i}`));
    const batch = api.rerank({ query: "needle", documents });
    const beside = await Promise.all(Array.from({ length: 20 }, () => api.chat()));
    expect(beside.every(({ status }) => status === 200)).toBe(true);
    const { results } = (await batch).json;
    expect(results).toHaveLength(1_000);
    expect(results[0]).toEqual({ index: 999, relevance_score: 1, document: { text: "needle" } });
  });

  it("paths of other services are 404 with the path of this service (GEN-2)", async () => {
    for (const path of ["/rerank", "/v2/rerank"]) {
      const reply = await api.post(path, {});
      expectError(reply, 404, "unknown_url");
      expect(reply.json.error.message).toContain("Did you mean /v1/rerank?");
    }
  });

  it("a key with the scope read_write is required (KEY-7)", async () => {
    const reader = createApi({ http: service.http, key: service.readKey });
    expectError(await reader.rerank(), 403, "insufficient_permissions");
  });
});
