import { describe, expect, it } from "vitest";
import { type OperationRow, operations } from "../../../../src/contract/operations.js";
import {
  includesModels,
  mayDo,
  mayUseModel,
  nobody,
  type Principal,
  tokenAdministrator,
} from "../../../../src/domain/call/principal.js";
import { unlimited } from "../../../../src/domain/call/rate-limits.js";

const viewer: Principal = {
  kind: "administrator",
  keyId: null,
  account: "default",
  sessionId: "ses_1",
  role: "viewer",
};

function keyOf(scope: "read" | "read_write", models: readonly string[] = []): Principal {
  return { kind: "api_key", keyId: "key_1", account: "default", scope, models, limits: unlimited };
}

const rows = Object.entries(operations) as [string, OperationRow][];

function open(principal: Principal): string[] {
  return rows.filter(([, { need, isReading }]) => mayDo(principal, need, isReading)).map(([name]) => name);
}

describe("Principal", () => {
  it("the scope read allows reading, read_write also inference, and only the administrator may administer (KEY-7)", () => {
    const inference = ["create_chat_completion", "create_completion", "create_embeddings", "rerank"];
    const signIn = ["complete_setup", "sign_in"];
    const read = rows.filter(([, { need }]) => need === "read").map(([name]) => name);
    expect(read).toEqual(expect.arrayContaining(["list_models", "get_model", "watch_models", "get_version"]));
    expect(open(nobody).toSorted()).toEqual(signIn);
    expect(open(keyOf("read")).toSorted()).toEqual([...read, ...signIn].toSorted());
    expect(open(keyOf("read_write"))).toEqual(expect.arrayContaining([...read, ...inference]));
    for (const [name, { need }] of rows) {
      if (need.startsWith("admin")) expect(open(keyOf("read_write")), name).not.toContain(name);
    }
    expect(open(tokenAdministrator)).toEqual(Object.keys(operations));
    const session = open({ ...viewer, role: "admin" });
    expect(Object.keys(operations).filter((name) => !session.includes(name))).toEqual(["create_setup_link"]);
  });

  it("a viewer may read what the administrator reads, and change nothing (KEY-22)", () => {
    const changing = rows.filter(([name]) => /^(create|update|rotate|revoke|change|pull|remove|reset)_/.test(name));
    expect(changing.length).toBeGreaterThan(8);
    for (const [name] of changing) expect(open(viewer), name).not.toContain(name);
    const seeing = rows.filter(([name, { need }]) => /^(list|get|query)_/.test(name) && need !== "read_write");
    for (const [name] of seeing) expect(open(viewer), name).toContain(name);
  });

  it("a key with a model list may use only listed models and those with a listed prefix", () => {
    const limited = keyOf("read_write", ["org/model", "qwen*"]);
    for (const model of ["org/model", "qwen", "qwen3-0.6b"]) expect(mayUseModel(limited, model)).toBe(true);
    for (const model of ["org/model2", "org/mode", "Qwen3", "my-qwen", ""]) {
      expect(mayUseModel(limited, model)).toBe(false);
    }
    expect(mayUseModel(keyOf("read"), "anything")).toBe(true);
    expect(mayUseModel(tokenAdministrator, "anything")).toBe(true);
  });

  it("a list of models includes another one if it lists each of its models or a shorter prefix (KEY-8)", () => {
    for (const wider of [[], ["*"], ["a", "b*"], ["b*", "a*", "c"]]) {
      expect(includesModels(wider, ["a", "bc*", "b"]), String(wider)).toBe(true);
    }
    for (const narrower of [["a"], ["a", "bcd*", "b"], ["a", "b", "bc"]]) {
      expect(includesModels(narrower, ["a", "bc*", "b"]), String(narrower)).toBe(false);
    }
    expect(includesModels(["a"], [])).toBe(false);
    expect(includesModels([], [])).toBe(true);
  });
});
