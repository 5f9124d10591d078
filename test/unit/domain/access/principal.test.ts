import { describe, expect, it } from "vitest";
import { type OperationRow, operations } from "../../../../src/contract/operations.js";
import { mayDo, mayUseModel, type Principal } from "../../../../src/domain/access/principal.js";

const administrator: Principal = { kind: "administrator", keyId: null, account: "default" };

function keyOf(scope: "read" | "read_write", models: readonly string[] = []): Principal {
  return { kind: "api_key", keyId: "key_1", account: "default", scope, models };
}

function open(principal: Principal): string[] {
  const rows = Object.entries(operations) as [string, OperationRow][];
  return rows.filter(([, { need }]) => mayDo(principal, need)).map(([name]) => name);
}

describe("Principal", () => {
  it("KEY-7: read reads, read_write also infers, and only the administrator administers", () => {
    const read = ["list_models", "get_model", "watch_models", "get_version"];
    const inference = ["create_chat_completion", "create_completion", "create_embeddings"];
    expect(open(keyOf("read")).toSorted()).toEqual(read.toSorted());
    expect(open(keyOf("read_write")).toSorted()).toEqual([...read, ...inference].toSorted());
    expect(open(administrator)).toEqual(Object.keys(operations));
  });

  it("a key with a list uses only the models that it names or whose start it names", () => {
    const limited = keyOf("read_write", ["org/model", "qwen*"]);
    for (const model of ["org/model", "qwen", "qwen3-0.6b"]) expect(mayUseModel(limited, model)).toBe(true);
    for (const model of ["org/model2", "org/mode", "Qwen3", "my-qwen", ""]) {
      expect(mayUseModel(limited, model)).toBe(false);
    }
    expect(mayUseModel(keyOf("read"), "anything")).toBe(true);
    expect(mayUseModel(administrator, "anything")).toBe(true);
  });
});
