import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeRandomBertGguf } from "../../support/gguf/random-gguf.js";
import { type LlamaService, startLlamaService } from "../../support/llama-service.js";
import { type Api, createApi, expectError } from "../openai/api.js";
import { createEmbeddings } from "../rpc/chat-requests.js";
import { openWay, wayNames } from "../rpc/ways.js";

const dimensions = 64;
const input = ["the people", "water and oil", "no number is the first"];

let service: LlamaService;
let api: Api;

beforeAll(async () => {
  service = await startLlamaService([
    { id: "e", contextLength: 512, slots: 2, write: (path) => writeRandomBertGguf(path) },
  ]);
  api = createApi(service);
}, 180_000);
afterAll(() => service.close());

async function embed(fields: object): Promise<readonly (readonly number[])[]> {
  const reply = await api.embeddings({ model: "e", input, ...fields });
  expect(reply.status, reply.text).toBe(200);
  return reply.json.data.map(({ embedding }: { embedding: number[] | string }) =>
    typeof embedding === "string" ? floats(Buffer.from(embedding, "base64")) : embedding.map(Math.fround),
  );
}

function floats(bytes: Uint8Array): readonly number[] {
  return [...new Float32Array(Uint8Array.from(bytes).buffer)];
}

const lengthOf = (vector: readonly number[]) => Math.hypot(...vector);

describe("embeddings", () => {
  it("have the model's own length; a model whose vectors cannot be shortened rejects other lengths (EMB-8)", async () => {
    const plain = await embed({});
    expect(plain.map((vector) => vector.length)).toEqual(input.map(() => dimensions));
    expect(await embed({ dimensions })).toEqual(plain);
    for (const other of [1, 32, 65]) {
      const reply = await api.embeddings({ model: "e", input, dimensions: other });
      expectError(reply, 400, "unsupported_parameter", "dimensions");
    }
  });

  it("have length one and are equal over every protocol and in both encodings (EMB-9, EMB-7, GRPC-2)", async () => {
    const expected = await embed({ encoding_format: "float" });
    for (const vector of expected) expect(lengthOf(vector)).toBeCloseTo(1, 5);
    expect(await embed({ encoding_format: "base64" })).toEqual(expected);
    for (const name of wayNames) {
      const way = openWay(name, service);
      try {
        const { messages } = await way.call(createEmbeddings, { params: { model: "e", input } });
        expect(
          messages[0]?.embeddings?.data.map(({ vector }) => floats(vector)),
          name,
        ).toEqual(expected);
      } finally {
        way.close();
      }
    }
  });

  it("are returned in the order of the inputs, each independent of the others, with exact usage (EMB-4, EMB-10)", async () => {
    const many = Array.from({ length: 300 }, (_, i) => input.slice(0, 1 + (i % 3)).join(" "));
    const reply = await api.embeddings({ model: "e", input: many });
    const alone = await Promise.all([0, 1, 2].map((i) => api.embeddings({ model: "e", input: many[i] })));
    for (const [place, { index, embedding }] of reply.json.data.entries()) {
      expect(index).toBe(place);
      expect(embedding).toEqual(alone[place % 3]?.json.data[0].embedding);
    }
    const each = alone.map(({ json }) => json.usage.prompt_tokens);
    const total = 100 * each.reduce((sum: number, tokens: number) => sum + tokens, 0);
    expect(reply.json.usage).toEqual({ prompt_tokens: total, total_tokens: total });
  });

  it("of an input that exceeds the context or is empty are rejected with the input's index (EMB-1)", async () => {
    const long = await api.embeddings({ model: "e", input: ["the", "the ".repeat(600)] });
    expectError(long, 400, "context_length_exceeded", "input[1]");
    expect(long.json.error.message).toContain("maximum context length is 512 tokens");
    expectError(await api.embeddings({ model: "e", input: ["the", " "] }), 400, "invalid_value", "input[1]");
  });

  it("of token ids are rejected, because the ids may belong to another model (EMB-2)", async () => {
    expectError(await api.embeddings({ model: "e", input: [7, 8, 9] }), 400, "token_input_not_supported", "input");
  });
});
