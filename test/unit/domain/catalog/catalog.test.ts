import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ListModelsRequestSchema } from "../../../../gen/unified/catalog/v1/catalog_service_pb.js";
import { tokenAdministrator } from "../../../../src/domain/call/principal.js";
import { Catalog } from "../../../../src/domain/catalog/catalog.js";
import type { ModelDefinition } from "../../../../src/domain/catalog/catalog-model.js";
import { listModels } from "../../../../src/domain/catalog/model-listing.js";
import { type Engine, EngineError, type LoadedModel } from "../../../../src/domain/engine/engine.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { caps } from "../../../support/capabilities.js";
import { deploymentOn, noDrains } from "../../../support/deployments.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";
import { requestOf } from "../routing/routing-fixture.js";

/** An engine whose loads are resolved by the test, and which records unloads. */
function slowEngine() {
  const loads: { end(fingerprint: string): void; fail(): void }[] = [];
  const unloaded: string[] = [];
  const engine: Engine = {
    load: () =>
      new Promise<LoadedModel>((resolve, reject) => {
        loads.push({
          end: (fingerprint) =>
            resolve({
              id: "m",
              caps: caps(),
              fingerprint,
              unload: async () => void unloaded.push(fingerprint),
            } as unknown as LoadedModel),
          fail: () => reject(new EngineError("model_not_loaded", "no such file")),
        });
      }),
  };
  return { engine, loads, unloaded };
}

function setUp() {
  const slow = slowEngine();
  const clock = new FakeClock();
  const catalog = new Catalog({
    clock,
    backgroundClock: clock,
    log: silentLog,
    store: openMemoryState().catalog,
    limits: { queueWaitMs: 30_000 },
    random: () => 0.5,
    drained: noDrains,
  });
  const definition = (id: string): ModelDefinition => ({
    id,
    ownedBy: "test",
    capabilities: ["chat"],
    prices: [],
    affinity: "none",
    defaults: null,
    fallbacks: [],
    deployments: [deploymentOn(slow.engine, { slots: 1 })],
  });
  const begun = (count: number) => expect.poll(() => slow.loads.length).toBe(count);
  const fingerprint = () => catalog.find("m", tokenAdministrator)?.deployments[0]?.model?.fingerprint ?? null;
  return { ...slow, clock, catalog, definition, begun, fingerprint };
}

describe("Catalog", () => {
  it("lists a new model immediately and loads it in the background", async () => {
    const { catalog, definition, begun, loads, fingerprint } = setUp();
    const put = catalog.put(definition("m"));
    await begun(1);
    expect(catalog.visibleTo(tokenAdministrator).map(({ id }) => id)).toEqual(["m"]);
    expect(fingerprint()).toBeNull();
    loads[0]?.end("first");
    await put;
    expect(fingerprint()).toBe("first");
  });

  it("answers with the old version of a model until the new one is loaded, then unloads it", async () => {
    const { catalog, definition, begun, loads, unloaded, fingerprint } = setUp();
    const first = catalog.put(definition("m"));
    await begun(1);
    loads[0]?.end("first");
    await first;
    const second = catalog.replace([definition("m")]);
    await begun(2);
    expect(fingerprint()).toBe("first");
    loads[1]?.end("second");
    await second;
    expect(fingerprint()).toBe("second");
    expect(unloaded).toEqual(["first"]);
  });

  it("lets requests that run or wait on a former version finish, before it is unloaded", async () => {
    const { catalog, definition, begun, loads, unloaded, clock } = setUp();
    const first = catalog.putAll([definition("m")]);
    await begun(1);
    loads[0]?.end("first");
    await first;
    const { room } = catalog.require("m", tokenAdministrator);
    const running = room.tryAcquire(requestOf());
    const waiting = room.acquire(requestOf(), new AbortController().signal);
    const second = catalog.putAll([definition("m")], "finish");
    await begun(2);
    loads[1]?.end("second");
    await second;
    clock.advance(1_000);
    await setImmediate();
    running?.release();
    const granted = await waiting;
    clock.advance(1_000);
    await setImmediate();
    expect(unloaded).toEqual([]);
    granted.release();
    clock.advance(1_000);
    await expect.poll(() => unloaded).toEqual(["first"]);
  });

  it("unloads former versions immediately when it is closed", async () => {
    const { catalog, definition, begun, loads, unloaded } = setUp();
    const put = catalog.put(definition("m"));
    await begun(1);
    loads[0]?.end("first");
    await put;
    expect(catalog.require("m", tokenAdministrator).room.tryAcquire(requestOf())).not.toBeNull();
    await catalog.remove("m", "finish");
    expect(unloaded).toEqual([]);
    await catalog.close();
    expect(unloaded).toEqual(["first"]);
  });

  it("keeps the old version of a model when the new one fails to load", async () => {
    const { catalog, definition, begun, loads, unloaded, fingerprint } = setUp();
    const first = catalog.put(definition("m"));
    await begun(1);
    loads[0]?.end("first");
    await first;
    const second = catalog.put(definition("m"));
    await begun(2);
    loads[1]?.fail();
    await second;
    expect(fingerprint()).toBe("first");
    expect(unloaded).toEqual([]);
  });

  it("does not list a model that failed to load, but still finds it for the error", async () => {
    const { catalog, definition, begun, loads } = setUp();
    const put = catalog.put(definition("m"));
    await begun(1);
    loads[0]?.fail();
    await put;
    expect(catalog.visibleTo(tokenAdministrator)).toEqual([]);
    expect(catalog.find("m", tokenAdministrator)?.hasFailed).toBe(true);
  });

  it("lists the same message object for a model until its capabilities change (E-35)", async () => {
    const { catalog, definition, begun, loads } = setUp();
    const put = catalog.put({ ...definition("m"), capabilities: null });
    await begun(1);
    const list = () => listModels(catalog, tokenAdministrator, create(ListModelsRequestSchema)).models;
    const [loading] = list();
    expect(loading?.capabilities).toEqual([]);
    expect(list()[0]).toBe(loading);
    loads[0]?.end("first");
    await put;
    const [loaded] = list();
    expect(loaded?.capabilities).toContain("chat");
    expect(list()[0]).toBe(loaded);
  });

  it("removes models that a new list does not contain", async () => {
    const { catalog, definition, begun, loads, unloaded } = setUp();
    const put = catalog.put(definition("m"));
    await begun(1);
    loads[0]?.end("first");
    await put;
    await catalog.replace([]);
    expect(catalog.all()).toEqual([]);
    expect(unloaded).toEqual(["first"]);
    expect(await catalog.remove("m")).toBe(false);
  });

  it("answers model_loading for an unknown model during the start, model_not_found afterwards (ERR-5)", () => {
    const { catalog } = setUp();
    const listed = catalog.beginListing();
    expect(() => catalog.require("m", tokenAdministrator)).toThrow(
      expect.objectContaining({ code: "model_loading", retryAfterMs: 1_000 }),
    );
    listed();
    expect(() => catalog.require("m", tokenAdministrator)).toThrow(
      expect.objectContaining({ code: "model_not_found" }),
    );
  });
});
