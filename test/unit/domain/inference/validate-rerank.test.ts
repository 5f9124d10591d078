import { describe, expect, it } from "vitest";
import { fixedLimits } from "../../../../src/contract/limits.js";
import { validateRerank } from "../../../../src/domain/inference/rerank.js";
import { outcome, refusal, reranking } from "./params.js";

const check = (changes: Parameters<typeof reranking>[0]): string => outcome(() => validateRerank(reranking(changes)));

describe("validateRerank", () => {
  it("needs a model, a query and documents, none of them empty (RANK-1)", () => {
    expect(check({})).toBe("accepted");
    expect(check({ model: "" })).toBe("missing_required_parameter model");
    expect(check({ query: "" })).toBe("missing_required_parameter query");
    expect(check({ documents: [] })).toBe("empty_array documents");
    expect(check({ documents: ["a", ""] })).toBe("invalid_value documents[1]");
  });

  it("accepts at most 1,000 documents (RANK-1)", () => {
    const documents = (count: number): string[] => Array.from({ length: count }, () => "x");
    expect(check({ documents: documents(1_000) })).toBe("accepted");
    expect(check({ documents: documents(1_001) })).toBe("array_above_max_length documents");
  });

  it("accepts a query of 65,536 characters, and 8 MiB of query and documents in UTF-8 (RANK-1)", () => {
    const { rerankQueryCharsMax, rerankBytesMax } = fixedLimits;
    expect(check({ query: "q".repeat(rerankQueryCharsMax) })).toBe("accepted");
    expect(check({ query: "q".repeat(rerankQueryCharsMax + 1) })).toBe("string_above_max_length query");
    // The query has 1 byte, each of the two long documents 2 bytes less than half of the maximum, and the third document 3
    // bytes: together the maximum.
    const half = "ä".repeat(rerankBytesMax / 4 - 1);
    expect(check({ query: "q", documents: [half, half, "xyz"] })).toBe("accepted");
    const tooLong = refusal(() => validateRerank(reranking({ query: "q", documents: [half, half, "xyz!"] })));
    expect(tooLong).toMatchObject({ code: "invalid_value", param: "documents" });
    expect(tooLong?.message).toContain(`at most ${rerankBytesMax} bytes together, but have ${rerankBytesMax + 1}`);
  });

  it("top_n is at least 1 and may exceed the number of documents (RANK-4)", () => {
    expect(check({ topN: 1 })).toBe("accepted");
    expect(check({ topN: 2_000 })).toBe("accepted");
    expect(check({ topN: 0 })).toBe("integer_below_min_value top_n");
    expect(check({ topN: -1 })).toBe("integer_below_min_value top_n");
  });
});
