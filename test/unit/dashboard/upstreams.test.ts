import { describe, expect, it } from "vitest";
import {
  inOrder,
  keyText,
  kindTitle,
  linesOf,
  modelsText,
  stateOf,
} from "../../../src/dashboard/pages/upstreams/upstream.js";

describe("upstreams as text", () => {
  it("says which models are offered", () => {
    expect(modelsText({ discover: "30s" })).toBe("All that it lists, every 30s");
    expect(modelsText({ discover: "0s" })).toBe("Those that uis.yaml names");
    expect(modelsText({ models: ["a", "b"] })).toBe("a, b");
    const many = Array.from({ length: 12 }, (_, i) => `m${i}`);
    expect(modelsText({ models: many })).toMatch(/^m0, .*, m9 and 2 more$/);
  });

  it("shows of keys their number and the end of the first", () => {
    expect(keyText({})).toBe("None");
    expect(keyText({ keyCount: 1 })).toBe("1 key");
    expect(keyText({ keyCount: 3, keyHint: "1234" })).toBe("3 keys, …1234");
  });

  it("names unknown kinds and states as the service does", () => {
    expect([kindTitle("vllm"), kindTitle("new-kind")]).toEqual(["vLLM", "new-kind"]);
    expect([stateOf({ state: "ejected" }), stateOf({ state: "resting" }), stateOf({})]).toEqual([
      ["bad", "Ejected"],
      ["plain", "resting"],
      ["plain", "Unknown"],
    ]);
  });

  it("lists deployments in trouble first, and keeps the order of the others", () => {
    const deployments = ["ready", "ejected", "ready", "loading"].map((state, i) => ({ id: String(i), state }));
    expect(inOrder(deployments).map(({ id }) => id)).toEqual(["1", "3", "0", "2"]);
  });

  it("reads one name a line", () => {
    expect(linesOf(" a \r\n\nb\n")).toEqual(["a", "b"]);
  });
});
