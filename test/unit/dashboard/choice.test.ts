import { describe, expect, it } from "vitest";
import { matching } from "../../../src/dashboard/ui/picker/choice.js";

const choices = [
  { value: "key_1", label: "Nightly reports", detail: "sk-uis-LAH…dZ04" },
  { value: "key_2", label: "Data team notebook" },
  { value: "key_3" },
];

describe("the choices of a picker", () => {
  it("match typed words in value, label and detail, in any order and case", () => {
    const found = (typed: string) => matching(choices, typed).map(({ value }) => value);
    expect(found("")).toEqual(["key_1", "key_2", "key_3"]);
    expect(found(" REPORTS night ")).toEqual(["key_1"]);
    expect(found("dz04")).toEqual(["key_1"]);
    expect(found("key_3")).toEqual(["key_3"]);
    expect(found("reports notebook")).toEqual([]);
  });

  it("are at most 100", () => {
    const many = Array.from({ length: 1_000 }, (_, index) => ({ value: `model-${index}` }));
    expect(matching(many, "model")).toHaveLength(100);
    expect(matching(many, "model-999")).toEqual([{ value: "model-999" }]);
  });
});
