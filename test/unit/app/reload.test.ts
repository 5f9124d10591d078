import { describe, expect, it } from "vitest";
import { constantLimits, limitSettingName, toServiceLimits } from "../../../src/app/config/limits-settings.js";
import { configSchema } from "../../../src/app/config/schema.js";
import { createLiveLimits, createReload, type ReloadDeps } from "../../../src/app/service/reload.js";
import { defaultLimits, type ServiceLimits } from "../../../src/contract/limits.js";
import type { LiveSettings } from "../../../src/domain/catalog/catalog-model.js";
import { silentLog } from "../../support/silent-log.js";

const configOf = (settings: object) => configSchema.parse(settings);
const model = (id: string) => ({ id, engine: "scripted" });

/** Creates a reload whose parts record their calls. */
function reloadFrom(settings: object) {
  const told: unknown[] = [];
  const kept: ReadonlySet<string>[] = [];
  const revised: ReadonlyMap<string, LiveSettings>[] = [];
  const parts = {
    catalog: {
      async replace(models: readonly { id: string }[], unchanged: ReadonlySet<string>) {
        told.push(models.map(({ id }) => id));
        kept.push(unchanged);
      },
      revise: (settings: ReadonlyMap<string, LiveSettings>) => revised.push(settings),
    },
    limitBook: { setDefaults: () => {} },
    ops: { setToken: () => {} },
    http: { reloadTimeouts: () => {} },
    discovery: { refresh: () => {}, models: [] },
    upstreams: { take: () => {}, offer: async () => {} },
    engines: { scripted: {} },
  };
  const config = configOf(settings);
  const limits = createLiveLimits(toServiceLimits(config.limits));
  const reload = createReload({
    config,
    tls: null,
    upstreams: [],
    limits,
    parts: parts as unknown as ReloadDeps["parts"],
    log: {
      ...silentLog,
      warn: (fields) => void told.push(fields),
    },
    track: () => {},
  });
  return { reload, told, kept, revised, limits: limits.now };
}

describe("reloading the configuration", () => {
  it("replaces models only if they changed", async () => {
    const { reload, told } = reloadFrom({ models: [model("a")] });
    await reload.apply(configOf({ models: [model("a")] }), []);
    expect(told).toEqual([]);
    await reload.apply(configOf({ models: [model("a"), model("b")] }), []);
    expect(told).toEqual([["a", "b"]]);
    await reload.apply(configOf({ models: [model("a"), model("b")] }), []);
    expect(told).toEqual([["a", "b"]]);
  });

  it("loads only the changed model of hundreds (E-15)", async () => {
    const models = Array.from({ length: 503 }, (_, i) => model(`model-${i}`));
    const { reload, told, kept } = reloadFrom({ models });
    const changed = models.map((each) => (each.id === "model-7" ? { ...each, scripted: { text: "new" } } : each));
    await reload.apply(configOf({ models: changed }), []);
    expect(told).toHaveLength(1);
    expect(kept).toEqual([new Set(models.map(({ id }) => id).filter((id) => id !== "model-7"))]);
  });

  it("changes prices without reloading a model (USE-8)", async () => {
    const { reload, told, revised } = reloadFrom({ models: [model("a")] });
    await reload.apply(configOf({ models: [{ ...model("a"), prices: { input: 3 } }] }), []);
    expect(told).toEqual([]);
    expect(revised.at(-1)?.get("a")).toMatchObject({ prices: [{ input: 3 }] });
  });

  it("changes defaults of requests without reloading a model", async () => {
    const { reload, told, revised } = reloadFrom({ models: [model("a")] });
    await reload.apply(configOf({ models: [{ ...model("a"), defaults: { temperature: 0.5 } }] }), []);
    expect(told).toEqual([]);
    expect(revised.at(-1)?.get("a")).toMatchObject({ defaults: { temperature: 0.5 } });
  });

  it("names the settings that need a restart", async () => {
    const { reload, told } = reloadFrom({});
    await reload.apply(configOf({ server: { port: 1 }, limits: { header_bytes_max: "2KiB" }, data_dir: "x" }), []);
    expect(told).toEqual([{ settings: ["server.port", "data_dir", "limits.header_bytes_max"] }]);
  });

  it("replaces every limit except two that listeners read once, in the object that all parts share", async () => {
    const { reload, told, limits } = reloadFrom({});
    const all = Object.keys(defaultLimits) as (keyof ServiceLimits)[];
    const names = all.filter((name) => !constantLimits.has(limitSettingName(name)));
    const changed = names.map((name) => [limitSettingName(name), name.endsWith("Ms") ? "1234ms" : 1234]);
    // The value 1234 is outside the range of these limits.
    const lower = { n_max: 1000 };
    const next = configOf({ limits: { ...Object.fromEntries(changed), ...lower } });
    await reload.apply(next, []);
    const fixed = ["headerBytesMax", "grpcStreamsMax"] as const;
    const kept = Object.fromEntries(fixed.map((name) => [name, defaultLimits[name]]));
    expect(limits).toEqual({ ...toServiceLimits(next.limits), ...kept });
    expect(told).toEqual([{ settings: fixed.map((name) => `limits.${limitSettingName(name)}`) }]);
  });

  it("changes nothing if a TLS file cannot be read", async () => {
    const { reload, told, limits } = reloadFrom({ models: [model("a")] });
    const tls = { cert_file: "/gone/cert.pem", key_file: "/gone/key.pem" };
    const next = configOf({ server: { tls }, limits: { n_max: 2 }, models: [model("b")] });
    await expect(reload.apply(next, [])).rejects.toThrow("/gone/cert.pem");
    expect(limits).toEqual(defaultLimits);
    expect(told).toEqual([]);
  });
});
