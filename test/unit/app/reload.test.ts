import { describe, expect, it } from "vitest";
import { configSchema } from "../../../src/app/config/schema.js";
import { createReload, type ReloadDeps } from "../../../src/app/reload.js";
import type { PriceList } from "../../../src/domain/usage/prices.js";
import { silentLog } from "../../support/core-harness.js";

const configOf = (settings: object) => configSchema.parse(settings);
const model = (id: string) => ({ id, engine: "scripted" });

/** A reload over parts that note what they are told. */
function reloadFrom(settings: object) {
  const told: unknown[] = [];
  const repriced: ReadonlyMap<string, PriceList>[] = [];
  const parts = {
    catalog: {
      replace: async (models: readonly { id: string }[]) => void told.push(models.map(({ id }) => id)),
      reprice: (prices: ReadonlyMap<string, PriceList>) => repriced.push(prices),
    },
    limitBook: { setDefaults: () => {} },
    engines: { scripted: {} },
  };
  const reload = createReload({
    config: configOf(settings),
    parts: parts as unknown as ReloadDeps["parts"],
    log: {
      ...silentLog,
      warn: (fields) => void told.push(fields),
    },
    track: () => {},
  });
  return { reload, told, repriced };
}

describe("reloading the configuration", () => {
  it("swaps models when they changed, and only then", async () => {
    const { reload, told } = reloadFrom({ models: [model("a")] });
    await reload.apply(configOf({ models: [model("a")] }));
    expect(told).toEqual([]);
    await reload.apply(configOf({ models: [model("a"), model("b")] }));
    expect(told).toEqual([["a", "b"]]);
    await reload.apply(configOf({ models: [model("a"), model("b")] }));
    expect(told).toEqual([["a", "b"]]);
  });

  it("USE-8: changes prices without loading a model anew", async () => {
    const { reload, told, repriced } = reloadFrom({ models: [model("a")] });
    await reload.apply(configOf({ models: [{ ...model("a"), prices: { input: 3 } }] }));
    expect(told).toEqual([]);
    expect(repriced.at(-1)?.get("a")).toMatchObject([{ input: 3 }]);
  });

  it("names the settings that wait for a restart", async () => {
    const { reload, told } = reloadFrom({});
    await reload.apply(configOf({ server: { port: 1 }, limits: { stall: "1s" }, data_dir: "x" }));
    expect(told).toEqual([{ settings: ["server.port", "data_dir", "limits.stall"] }]);
  });
});
