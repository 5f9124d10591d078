import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ErrorCode } from "../../../src/contract/errors.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError } from "./api.js";

const bad: readonly (readonly [title: string, fields: object, code: ErrorCode, param: string])[] = [
  ["no input (EMB-1)", { input: undefined }, "missing_required_parameter", "input"],
  ["a null input (EMB-1)", { input: null }, "missing_required_parameter", "input"],
  ["an empty text (EMB-1)", { input: "" }, "invalid_value", "input"],
  ["an empty list (EMB-1)", { input: [] }, "empty_array", "input"],
  ["an empty text among others (EMB-1)", { input: ["a", ""] }, "invalid_value", "input[1]"],
  ["an input of another type (EMB-1)", { input: { a: 1 } }, "invalid_type", "input"],
  ["a mixed list (EMB-1)", { input: ["a", 5] }, "invalid_type", "input[1]"],
  ["2,049 inputs (EMB-1, SEC-8)", { input: Array(2049).fill("a") }, "array_above_max_length", "input"],
  [
    "an input longer than the context (EMB-1, ERR-9)",
    { input: ["a", "b ".repeat(65)] },
    "context_length_exceeded",
    "input[1]",
  ],
  ["token ids (EMB-2)", { input: [1, 2, 3] }, "token_input_not_supported", "input"],
  ["lists of token ids (EMB-2)", { input: [[1], [2]] }, "token_input_not_supported", "input"],
  ["an unknown encoding (EMB-5, GEN-10)", { encoding_format: "int8" }, "invalid_value", "encoding_format"],
  ["an encoding of another type (EMB-5, GEN-8)", { encoding_format: 1 }, "invalid_type", "encoding_format"],
  ["no dimensions (EMB-8)", { dimensions: 0 }, "integer_below_min_value", "dimensions"],
  ["more dimensions than there are (EMB-8)", { dimensions: 65 }, "integer_above_max_value", "dimensions"],
  ["a user of another type (EMB-10)", { user: 5 }, "invalid_type", "user"],
  ["no model (GEN-13)", { model: null }, "missing_required_parameter", "model"],
  ["a chat model (GEN-13)", { model: "test-chat" }, "model_not_supported", "model"],
];

describe("embeddings", () => {
  let service: RunningService;
  let api: Api;

  beforeAll(async () => {
    service = await startService({
      config: {
        models: [
          { id: "test-embed", engine: "scripted", scripted: { dimensions: 64, context_length: 64 } },
          { id: "test-chat", engine: "scripted", scripted: { text: "x" } },
        ],
      },
    });
    api = createApi(service);
  });
  afterAll(() => service.close());

  it.each(bad)("%s is rejected", async (_, fields, code, param) => {
    const reply = await api.embeddings(fields);
    // Whether a number of dimensions is supported depends on the model, so this code is accepted too.
    if (param === "dimensions" && reply.json.error.code === "unsupported_parameter") return;
    expectError(reply, 400, code, param);
  });

  it("the answer has exactly these bytes (EMB-3, EMB-5, EMB-10, RESP-14)", async () => {
    const { json, headers } = await api.embeddings({ user: "u" });
    expect(headers.get("content-type")).toBe("application/json");
    expect(json).toEqual({
      object: "list",
      data: [{ object: "embedding", index: 0, embedding: expect.any(Array) }],
      model: "test-embed",
      usage: { prompt_tokens: 2, total_tokens: 2 },
    });
    expect(json.data[0].embedding).toHaveLength(64);
    expect(json.data[0].embedding.every((value: unknown) => typeof value === "number" && Number.isFinite(value))).toBe(
      true,
    );
  });

  it("the answer has one vector per input, in order (EMB-4)", async () => {
    const alone = (await api.embeddings({ input: "b" })).json.data[0].embedding;
    const { data } = (await api.embeddings({ input: ["a", "b", "a"] })).json;
    expect(data.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2]);
    expect(data[1].embedding).toEqual(alone);
    expect(data[0].embedding).toEqual(data[2].embedding);
    expect(data[0].embedding).not.toEqual(alone);
  });

  it("base64 is the same vector as float32, little-endian, padded, in one line (EMB-6, EMB-7, PROTO-7)", async () => {
    const floats = (await api.embeddings({ encoding_format: "float" })).json.data[0].embedding as number[];
    const text = (await api.embeddings({ encoding_format: "base64" })).json.data[0].embedding as string;
    expect(text).toMatch(/^[A-Za-z0-9+/]+={0,2}$/);
    expect(text.length % 4).toBe(0);
    const bytes = Buffer.from(text, "base64");
    expect(bytes.length).toBe(64 * 4);
    expect(floats.map(Math.fround)).toEqual(floats.map((_, i) => bytes.readFloatLE(i * 4)));
  });

  it("a shortened vector has the requested size and length one (EMB-8, EMB-9)", async () => {
    for (const dimensions of [1, 32, 64]) {
      const vector = (await api.embeddings({ dimensions })).json.data[0].embedding as number[];
      expect(vector).toHaveLength(dimensions);
      expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
    }
  });

  it("the rejection of token ids names the setting that allows them (EMB-2)", async () => {
    expect((await api.embeddings({ input: [1] })).json.error.message).toContain("check_embedding_ctx_length=False");
  });

  it("2,048 texts are accepted in both encodings, and other requests are served at the same time (EMB-11)", async () => {
    const input = Array.from({ length: 2048 }, (_, i) => `text number ${i}`);
    for (const encoding of ["float", "base64"]) {
      const batch = api.embeddings({ input, encoding_format: encoding });
      const beside = await Promise.all(Array.from({ length: 20 }, () => api.chat()));
      expect(beside.every(({ status }) => status === 200)).toBe(true);
      const { status, json } = await batch;
      expect(status).toBe(200);
      expect(json.data).toHaveLength(2048);
      expect(json.data[2047].index).toBe(2047);
    }
  });
});
