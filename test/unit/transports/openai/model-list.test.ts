import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { type Model, ModelSchema } from "../../../../gen/unified/catalog/v1/model_pb.js";
import { createModelListWriter, modelToJson } from "../../../../src/transports/openai/model-list.js";

const models: readonly Model[] = Array.from({ length: 2_000 }, (_, number) =>
  create(ModelSchema, { id: `model-${number}`, ownedBy: "test", capabilities: ["chat"], contextLength: 4_096 }),
);

describe("the list of models", () => {
  it("is serialized once for each caller's models while they do not change (E-35)", () => {
    const write = createModelListWriter();
    const all = write(models);
    const few = write(models.slice(0, 3));
    expect(write([...models])).toBe(all);
    expect(write(models.slice(0, 3))).toBe(few);
    expect(JSON.parse(all.toString())).toEqual({ object: "list", data: models.map(modelToJson) });
  });

  it("is serialized again when a model has changed", () => {
    const write = createModelListWriter();
    const before = write(models);
    const changed = create(ModelSchema, { id: "model-\u00e9", ownedBy: "test" });
    const after = write([...models.slice(1), changed]);
    expect(after.equals(before)).toBe(false);
    expect(JSON.parse(after.toString()).data.at(-1)).toMatchObject({ id: "model-\u00e9" });
  });

  it("is kept for a bounded number of different callers", () => {
    const write = createModelListWriter();
    const first = write(models.slice(0, 1));
    for (let count = 2; count < 20; count++) write(models.slice(0, count));
    const again = write(models.slice(0, 1));
    expect(again).not.toBe(first);
    expect(again.equals(first)).toBe(true);
  });
});
