import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ErrorCode } from "../../../src/contract/errors.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError } from "./api.js";

const bad: readonly (readonly [title: string, fields: object, code: ErrorCode, param: string])[] = [
  ["EMB-1: no input", { input: undefined }, "missing_required_parameter", "input"],
  ["EMB-1: a null input", { input: null }, "missing_required_parameter", "input"],
  ["EMB-1: an empty text", { input: "" }, "invalid_value", "input"],
  ["EMB-1: an empty list", { input: [] }, "empty_array", "input"],
  ["EMB-1: an empty text among others", { input: ["a", ""] }, "invalid_value", "input[1]"],
  ["EMB-1: an input of another type", { input: { a: 1 } }, "invalid_type", "input"],
  ["EMB-1: a mixed list", { input: ["a", 5] }, "invalid_type", "input[1]"],
  ["EMB-1 SEC-8: 2,049 inputs", { input: Array(2049).fill("a") }, "array_above_max_length", "input"],
  [
    "EMB-1 ERR-9: an input longer than the context",
    { input: ["a", "b ".repeat(65)] },
    "context_length_exceeded",
    "input[1]",
  ],
  ["EMB-2: token ids", { input: [1, 2, 3] }, "token_input_not_supported", "input"],
  ["EMB-2: lists of token ids", { input: [[1], [2]] }, "token_input_not_supported", "input"],
  ["EMB-5 GEN-10: an unknown encoding", { encoding_format: "int8" }, "invalid_value", "encoding_format"],
  ["EMB-5 GEN-8: an encoding of another type", { encoding_format: 1 }, "invalid_type", "encoding_format"],
  ["EMB-8: no dimensions", { dimensions: 0 }, "integer_below_min_value", "dimensions"],
  ["EMB-8: more dimensions than there are", { dimensions: 65 }, "integer_above_max_value", "dimensions"],
  ["EMB-10: a user of another type", { user: 5 }, "invalid_type", "user"],
  ["GEN-13: no model", { model: null }, "missing_required_parameter", "model"],
  ["GEN-13: a chat model", { model: "test-chat" }, "model_not_supported", "model"],
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

  it.each(bad)("%s is refused", async (_, fields, code, param) => {
    const reply = await api.embeddings(fields);
    // More dimensions than the model has is a matter of the model, and so may be refused as such.
    if (param === "dimensions" && reply.json.error.code === "unsupported_parameter") return;
    expectError(reply, 400, code, param);
  });

  it("EMB-3 EMB-5 EMB-10 RESP-14: the answer is exactly this", async () => {
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

  it("EMB-4: there is one vector per input, in their order", async () => {
    const alone = (await api.embeddings({ input: "b" })).json.data[0].embedding;
    const { data } = (await api.embeddings({ input: ["a", "b", "a"] })).json;
    expect(data.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2]);
    expect(data[1].embedding).toEqual(alone);
    expect(data[0].embedding).toEqual(data[2].embedding);
    expect(data[0].embedding).not.toEqual(alone);
  });

  it("EMB-6 EMB-7 PROTO-7: base64 is the same vector as float32, little-endian, padded, in one line", async () => {
    const floats = (await api.embeddings({ encoding_format: "float" })).json.data[0].embedding as number[];
    const text = (await api.embeddings({ encoding_format: "base64" })).json.data[0].embedding as string;
    expect(text).toMatch(/^[A-Za-z0-9+/]+={0,2}$/);
    expect(text.length % 4).toBe(0);
    const bytes = Buffer.from(text, "base64");
    expect(bytes.length).toBe(64 * 4);
    expect(floats.map(Math.fround)).toEqual(floats.map((_, i) => bytes.readFloatLE(i * 4)));
  });

  it("EMB-8 EMB-9: a shortened vector has its length and is of length one", async () => {
    for (const dimensions of [1, 32, 64]) {
      const vector = (await api.embeddings({ dimensions })).json.data[0].embedding as number[];
      expect(vector).toHaveLength(dimensions);
      expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
    }
  });

  it("EMB-2: the refusal of token ids says what to set", async () => {
    expect((await api.embeddings({ input: [1] })).json.error.message).toContain("check_embedding_ctx_length=False");
  });

  it("EMB-11: 2,048 texts pass, in both encodings, and others are served in the meantime", async () => {
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
