import { describe, expect, it } from "vitest";
import { Ended } from "../../../../src/domain/call/call-context.js";
import type { Deployment } from "../../../../src/domain/catalog/deployment.js";
import type { LoadedModel } from "../../../../src/domain/engine/engine.js";
import { waitForModel } from "../../../../src/domain/inference/wait-for-model.js";
import { FakeClock } from "../../../support/fake-clock.js";

const queueWaitMs = 30_000;

/** A deployment whose load ends when the test says so. */
function setUp() {
  const clock = new FakeClock();
  const abort = new AbortController();
  let endLoad = (): void => {};
  const loadEnded = new Promise<void>((resolve) => {
    endLoad = resolve;
  });
  const deployment = {
    loadEnded,
    model: null as LoadedModel | null,
    failure: null as Error | null,
    progress: { stage: "fetching", share: 0.426 },
  };
  const waiting = waitForModel(deployment as unknown as Deployment, { clock, queueWaitMs }, abort.signal);
  return { clock, abort, deployment, endLoad, waiting };
}

describe("waiting for a model", () => {
  it("a request is held until the model is loaded (RETRY-4)", async () => {
    const { clock, deployment, endLoad, waiting } = setUp();
    clock.advance(queueWaitMs - 1);
    deployment.model = { id: "m" } as LoadedModel;
    endLoad();
    expect(await waiting).toBe(deployment.model);
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

  it("a model that could not be loaded is 503, and the reason is not the caller's (ERR-24)", async () => {
    const { clock, deployment, endLoad, waiting } = setUp();
    deployment.failure = new Error("/secret/path is no GGUF file");
    endLoad();
    await expect(waiting).rejects.toMatchObject({
      code: "model_not_loaded",
      message: expect.not.stringContaining("secret"),
    });
    expect(clock.pending).toBe(0);
  });

  it("a client that leaves no longer waits (RETRY-6)", async () => {
    const { abort, clock, waiting } = setUp();
    abort.abort(new Ended("client_left"));
    await expect(waiting).rejects.toMatchObject({ code: "client_closed_request" });
    expect(clock.pending).toBe(0);
  });
});
