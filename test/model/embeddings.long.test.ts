import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { post } from "../support/model-client.js";
import { type ModelService, startModelService } from "../support/model-service.js";
import pairs from "./reference-embeddings.json" with { type: "json" };

/** Maximum difference of a cosine, because the stored weights have eight bits each and the original ones more. */
const tolerance = 0.01;

interface Embeddings {
  readonly data: readonly { readonly index: number; readonly embedding: unknown }[];
  readonly usage: { readonly prompt_tokens: number; readonly total_tokens: number };
}

let service: ModelService;

beforeAll(async () => {
  service = await startModelService({ kind: "embedding", slots: 2 });
});

afterAll(() => service?.close());

async function embed(input: readonly string[], fields: object = {}): Promise<Embeddings> {
  const response = await post(service, "/embeddings", { input, ...fields });
  expect(response.status).toBe(200);
  return (await response.json()) as Embeddings;
}

async function vectorsOf(input: readonly string[]): Promise<readonly (readonly number[])[]> {
  return (await embed(input)).data.map(({ embedding }) => embedding as number[]);
}

function product(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, number, i) => sum + number * (b[i] ?? Number.NaN), 0);
}

/** The reference pairs, each with the cosine (`found`) of the service's vectors. */
async function measured(): Promise<readonly { relation: string; texts: string[]; cosine: number; found: number }[]> {
  const vectors = await vectorsOf(pairs.flatMap(({ texts }) => texts));
  return pairs.map(({ relation, texts, cosine }, i) => {
    const found = product(vectors[2 * i] ?? [], vectors[2 * i + 1] ?? []);
    return { relation, texts, cosine, found };
  });
}

describe("the default embedding model through the service", () => {
  it("gives every pair of texts the same cosine as the original weights (EMB-4)", async () => {
    const wrong = (await measured()).filter(({ cosine, found }) => !(Math.abs(found - cosine) <= tolerance));
    expect(wrong).toEqual([]);
  });

  it("ranks every related pair above every unrelated one", async () => {
    const found = await measured();
    const cosines = (relation: string) => found.filter((pair) => pair.relation === relation).map((pair) => pair.found);
    expect(Math.min(...cosines("related"))).toBeGreaterThan(Math.max(...cosines("unrelated")));
  });

  it("counts exactly the tokens of the model's own tokenizer (EMB-10)", async () => {
    for (const { texts, tokens } of pairs) {
      const sum = tokens.reduce((a, b) => a + b);
      expect((await embed(texts)).usage).toEqual({ prompt_tokens: sum, total_tokens: sum });
    }
  });

  it("returns vectors of length one (EMB-9)", async () => {
    const vectors = await vectorsOf(pairs.flatMap(({ texts }) => texts));
    for (const vector of vectors) {
      expect(vector).toHaveLength(384);
      expect(product(vector, vector)).toBeCloseTo(1, 5);
    }
  });

  it("returns the same vector as numbers and as base64 (EMB-7)", async () => {
    const [text = ""] = pairs[0]?.texts ?? [];
    const [numbers = []] = await vectorsOf([text]);
    const { data } = await embed([text], { encoding_format: "base64" });
    const bytes = Buffer.from(String(data[0]?.embedding), "base64");
    const coded = numbers.map((_, i) => bytes.readFloatLE(4 * i));
    expect(bytes).toHaveLength(4 * numbers.length);
    expect(coded).toEqual(numbers.map(Math.fround));
  });
});
