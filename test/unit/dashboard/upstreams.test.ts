import { describe, expect, it } from "vitest";
import { inOrder, keyText, kindTitle, modelsText, stateOf } from "../../../src/dashboard/pages/upstreams/upstream.js";
import {
  checkRequest,
  createRequest,
  draftOf,
  emptyDraft,
  updateRequest,
} from "../../../src/dashboard/pages/upstreams/upstream-draft.js";

describe("the text of an upstream", () => {
  it("names the offered models", () => {
    expect(modelsText({ discover: "30s" })).toBe("All models that it lists, read every 30s");
    expect(modelsText({ discover: "0s" })).toBe("Those named in uis.yaml");
    expect(modelsText({ models: ["a", "b"] })).toBe("a, b");
    const many = Array.from({ length: 12 }, (_, i) => `m${i}`);
    expect(modelsText({ models: many })).toMatch(/^m0, .*, m9 and 2 more$/);
  });

  it("contains the number of keys and the last characters of the first", () => {
    expect(keyText({})).toBe("None");
    expect(keyText({ keyCount: 1 })).toBe("1 key");
    expect(keyText({ keyCount: 3, keyHint: "1234" })).toBe("3 keys, …1234");
  });

  it("uses the service's names for unknown kinds and states", () => {
    expect([kindTitle("vllm"), kindTitle("new-kind")]).toEqual(["vLLM", "new-kind"]);
    expect([stateOf({ state: "ejected" }), stateOf({ state: "resting" }), stateOf({})]).toEqual([
      ["bad", "Ejected"],
      ["plain", "resting"],
      ["plain", "Unknown"],
    ]);
  });

  it("lists deployments that are not ready first, and keeps the order of the others", () => {
    const deployments = ["ready", "ejected", "ready", "loading"].map((state, i) => ({ id: String(i), state }));
    expect(inOrder(deployments).map(({ id }) => id)).toEqual(["1", "3", "0", "2"]);
  });
});

describe("the form of an upstream", () => {
  const typed = { ...emptyDraft, name: " gpu ", url: "http://a/v1 ", key: "k", models: ["m"] };

  it("creates the upstream with the typed values, and with defaults for empty fields", () => {
    expect(createRequest(typed, "vllm")).toEqual({
      upstream: { name: "gpu", url: "http://a/v1", kind: "vllm", models: ["m"], weight: 1, priority: 0, slots: 256 },
      key: "k",
      headers: {},
    });
    const azure = { ...typed, apiVersion: "2024-10-21", connect: "0.5", total: "90", headers: "X-Team: a: b\n\nx-b:c" };
    expect(createRequest(azure, "azure")).toMatchObject({
      upstream: { apiVersion: "2024-10-21", connect: "0.5s", total: "90s" },
      headers: { "X-Team": "a: b", "x-b": "c" },
    });
    expect(createRequest({ ...typed, native: ["messages"] }, "vllm").upstream).toMatchObject({ native: ["messages"] });
    expect(createRequest(azure, "vllm").upstream).not.toHaveProperty("apiVersion");
  });

  it("rejects a line that is no header with an error of the field", () => {
    expect(() => checkRequest({ ...typed, headers: "x-a: 1\nnonsense" })).toThrow("Each line must be a header");
  });

  it("sends only changed fields, and keeps key and headers that are not typed again", () => {
    const before = draftOf({ name: "gpu", url: "http://a", kind: "azure", firstByte: "60s", models: ["m"], slots: 8 });
    expect(before).toMatchObject({ firstByte: "60", connect: "", key: "", headers: "", slots: "8" });
    expect(updateRequest(before, before)).toEqual({ name: "gpu", weight: 1, priority: 0, slots: 8 });
    const draft = {
      ...before,
      firstByte: "5",
      models: [],
      native: ["responses"],
      headers: "a: 1",
      key: "new",
      url: "http://b",
    };
    expect(updateRequest(before, draft)).toMatchObject({
      ...{ url: "http://b", firstByte: "5s", key: "new" },
      models: { values: [] },
      native: { values: ["responses"] },
      headers: { values: { a: "1" } },
    });
  });
});
