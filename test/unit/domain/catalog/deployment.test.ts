import { describe, expect, it } from "vitest";
import { Ended } from "../../../../src/domain/call/call-context.js";
import { Deployment } from "../../../../src/domain/catalog/deployment.js";
import { type Engine, EngineError, type LoadedModel } from "../../../../src/domain/engine/engine.js";
import { EjectionGroup } from "../../../../src/domain/routing/ejection-group.js";
import { deploymentOn } from "../../../support/deployments.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";

const queueWaitMs = 30_000;

/** A deployment whose load is resolved by the test. */
function setUp() {
  const clock = new FakeClock();
  const abort = new AbortController();
  let end: (model: LoadedModel) => void = () => {};
  let fail: (cause: Error) => void = () => {};
  const engine: Engine = {
    load: (_spec, onProgress) => {
      onProgress({ stage: "fetching", share: 0.426 });
      return new Promise((resolve, reject) => {
        end = resolve;
        fail = reject;
      });
    },
  };
  const place = { modelId: "m", position: 0, group: new EjectionGroup(clock), granted: () => 0, onChange: () => {} };
  const healthChecks = { begin: () => {}, end: () => {} };
  const drained = new Set<string>();
  const deps = {
    clock,
    backgroundClock: clock,
    log: silentLog,
    limits: { queueWaitMs },
    random: () => 0.5,
    healthChecks,
    drained,
  };
  const deployment = new Deployment(deps, deploymentOn(engine), place);
  const waiting = deployment.onceLoaded(abort.signal);
  return { clock, abort, end, fail, deployment, waiting, drained };
}

describe("waiting for a model", () => {
  it("a request is held until the model is loaded (RETRY-4)", async () => {
    const { clock, end, waiting } = setUp();
    clock.advance(queueWaitMs - 1);
    const model = { id: "m" } as LoadedModel;
    end(model);
    expect(await waiting).toBe(model);
    expect(clock.pending).toBe(0);
  });

  it("a request that waited too long for a model gets 503 with Retry-After (RETRY-4, ERR-24)", async () => {
    const { clock, waiting } = setUp();
    clock.advance(queueWaitMs);
    await expect(waiting).rejects.toMatchObject({
      code: "model_loading",
      message: expect.stringContaining("42 %"),
      retryAfterMs: expect.any(Number),
    });
  });

  it("a model that could not be loaded is 503 without the internal reason (ERR-24)", async () => {
    const { clock, fail, waiting } = setUp();
    fail(new Error("/secret/path is no GGUF file"));
    await expect(waiting).rejects.toMatchObject({
      code: "model_not_loaded",
      message: expect.not.stringContaining("secret"),
      shouldRetry: false,
      retryAfterMs: null,
    });
    expect(clock.pending).toBe(0);
  });

  it("a client that disconnects stops waiting (RETRY-6)", async () => {
    const { abort, clock, waiting } = setUp();
    abort.abort(new Ended("client_left"));
    await expect(waiting).rejects.toMatchObject({ code: "client_closed_request" });
    expect(clock.pending).toBe(0);
  });
});

describe("the state of a deployment, for operators", () => {
  it("is loading with its progress, then ready, then draining", async () => {
    const { deployment, end, drained } = setUp();
    expect(deployment.state).toEqual({
      state: "loading",
      reason: "The model is still being fetched: 42 % are done.",
      until: null,
    });
    end({ id: "m" } as LoadedModel);
    await deployment.loadEnded;
    expect(deployment.state).toEqual({ state: "ready", reason: null, until: null });
    drained.add(deployment.id);
    expect(deployment.state).toMatchObject({ state: "draining", reason: expect.stringContaining("no new requests") });
  });

  it("is loading with the error after a load that failed", async () => {
    const { deployment, fail, waiting } = setUp();
    fail(new EngineError("model_not_loaded", "there is no file m.gguf"));
    await expect(waiting).rejects.toMatchObject({ code: "model_not_loaded" });
    expect(deployment.state).toEqual({
      state: "loading",
      reason: "The load failed: there is no file m.gguf",
      until: null,
    });
  });
});
