import { readFileSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { retryAdvice } from "../../../../src/domain/call/service-error.js";
import { EngineError, type LoadedModel } from "../../../../src/domain/engine/engine.js";
import { serviceErrorOf } from "../../../../src/domain/engine/engine-error.js";
import { eventually } from "../../../support/eventually.js";
import { FakeLlama, type FakeLlamaOptions, outcome, textOf } from "../../../support/llama/fake-llama.js";

const never = new AbortController().signal;
let fake: FakeLlama;

afterEach(() => fake.close());

async function loadFake(options: FakeLlamaOptions = {}): Promise<LoadedModel> {
  fake = new FakeLlama(options);
  return fake.load();
}

/** Ends the current child and waits until the engine has detected it. */
async function crash(model: LoadedModel): Promise<void> {
  const before = fake.lines("engine process ended").length;
  const { error } = await outcome(model, "die-talking 1");
  expect(error?.code).toBe("engine_restarted");
  await fake.ended(before + 1);
}

/** Advances the clock until the next child has loaded. */
async function restart(count: number, delayMs = 5_000): Promise<void> {
  fake.clock.advance(delayMs);
  await fake.loaded(count);
}

async function refusal(model: LoadedModel): Promise<EngineError> {
  const { error } = await outcome(model, "say 1");
  expect(error).toBeInstanceOf(EngineError);
  return error ?? new EngineError("internal", "no error");
}

describe("supervision of a child", () => {
  it("a call after a crash waits for the next child, and the server process survives (REL-4)", async () => {
    const model = await loadFake();
    const { pid } = process;
    const first = textOf((await outcome(model, "pid")).events);
    await crash(model);
    const waiting = outcome(model, "pid");
    await restart(2, 100);
    const second = textOf((await waiting).events);
    expect(Number(second)).toBeGreaterThan(0);
    expect(second).not.toBe(first);
    expect(process.pid).toBe(pid);
    expect(model.stats().restarts).toBe(1);
  });

  it("a child that is killed while idle is replaced without a call (REL-4)", async () => {
    const model = await loadFake();
    const pid = Number(textOf((await outcome(model, "pid")).events));
    process.kill(pid, "SIGKILL");
    await fake.ended(1);
    await restart(2, 100);
    expect((await outcome(model, "say 1")).error).toBeNull();
  });

  it("the restart delay doubles from 100 ms to at most 5 s (REL-4)", async () => {
    const model = await loadFake({ settings: { circuitCrashes: 100 } });
    for (const [i, delayMs] of [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000].entries()) {
      await crash(model);
      const started = fake.lives;
      fake.clock.advance(delayMs - 1);
      expect(fake.clock.pending).toBe(1);
      expect(fake.lives).toBe(started);
      await restart(i + 2, 1);
    }
  });

  it("a stopped child is killed within the stall limit, and its calls end then (REL-4)", async () => {
    const model = await loadFake();
    const pid = Number(textOf((await outcome(model, "pid")).events));
    const running = outcome(model, "stop-talking");
    await eventually(() => isStopped(pid), "the child's stop");
    fake.clock.advance(27_000);
    const { events, error } = await running;
    expect(textOf(events)).toBe("t1 ");
    expect(error).toMatchObject({ code: "engine_restarted", retryable: false });
    await eventually(() => !isAlive(pid), "the child's end");
    await restart(2, 0);
    expect((await outcome(model, "say 1")).error).toBeNull();
  });

  it("a child that no longer answers heartbeats is killed, and a call without an event ends as well (REL-4)", async () => {
    const model = await loadFake();
    const running = outcome(model, "mute");
    await new Promise((resolve) => setImmediate(resolve));
    fake.clock.advance(30_000);
    expect((await running).error).toMatchObject({ code: "engine_restarted", retryable: true });
    expect(fake.lines("engine process ended")[0]?.fields).toMatchObject({ why: "hung" });
  });

  it("a child that answers heartbeats is not killed, however long its call takes", async () => {
    const model = await loadFake();
    const running = outcome(model, "deaf");
    for (let second = 0; second < 100; second += 1) {
      fake.clock.advance(1_000);
      await model.countTokens?.({ prompt: "a round trip, so that the answer to the heartbeat is here" }, never);
    }
    expect(fake.lines("engine process ended")).toEqual([]);
    const unloaded = model.unload(10);
    fake.clock.advance(10);
    await unloaded;
    expect((await running).error?.code).toBe("engine_restarted");
  });

  it("one crash more than allowed opens the circuit breaker: calls are rejected immediately, with the time of the next probe (REL-4)", async () => {
    const model = await loadFake({ settings: { circuitCrashes: 2 } });
    await crash(model);
    await restart(2);
    await crash(model);
    await restart(3);
    await crash(model);
    const error = await refusal(model);
    expect(error).toMatchObject({ code: "model_not_loaded", retryable: true, retryAfterMs: 10_000 });
    expect(serviceErrorOf(error)).toMatchObject({ code: "model_not_loaded", retryAfterMs: 10_000 });
    fake.clock.advance(4_000);
    expect((await refusal(model)).retryAfterMs).toBe(6_000);
    await expect(model.embed({ inputs: ["a"] }, never)).rejects.toBeInstanceOf(EngineError);
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("after the cool-down one probe is loaded, and its success closes the circuit breaker (REL-4)", async () => {
    const model = await loadFake({ settings: { circuitCrashes: 1 } });
    await crash(model);
    await restart(2);
    await crash(model);
    expect((await refusal(model)).code).toBe("model_not_loaded");
    fake.clock.advance(10_000);
    const duringProbe = outcome(model, "say 1");
    await fake.loaded(3);
    expect(fake.lives).toBe(3);
    expect((await duringProbe).error).toBeNull();
    expect((await outcome(model, "say 1")).error).toBeNull();
  });

  it("a probe that fails doubles the cool-down (REL-4)", async () => {
    const model = await loadFake({ loads: ["ok", "fail", "die", "fail", "ok"] });
    await crash(model);
    fake.clock.advance(100);
    await fake.ended(2);
    expect((await refusal(model)).retryAfterMs).toBe(10_000);
    fake.clock.advance(10_000);
    await fake.ended(3);
    expect((await refusal(model)).retryAfterMs).toBe(20_000);
    fake.clock.advance(20_000);
    await fake.ended(4);
    expect((await refusal(model)).retryAfterMs).toBe(40_000);
    fake.clock.advance(40_000);
    await fake.loaded(2);
    expect((await outcome(model, "say 1")).error).toBeNull();
  });

  it("a cool-down of more than a minute still advises a wait that clients accept (REL-4, RETRY-1)", async () => {
    const model = await loadFake({ loads: ["ok", "fail"] });
    await crash(model);
    fake.clock.advance(100);
    await fake.ended(2);
    for (const [ended, coolDownMs] of [
      [3, 10_000],
      [4, 20_000],
      [5, 40_000],
    ] as const) {
      fake.clock.advance(coolDownMs);
      await fake.ended(ended);
    }
    const error = serviceErrorOf(await refusal(model));
    expect(retryAdvice(error)).toEqual({ waitMs: 60_000, shouldRetry: null });
    fake.clock.advance(50_000);
    expect((await refusal(model)).retryAfterMs).toBe(30_000);
  });

  it("a call that waited for a slot when the child was lost fails as early as calls that had a slot (REL-4)", async () => {
    const model = await loadFake({ loads: ["ok", "hang"] });
    await crash(model);
    fake.clock.advance(20_000);
    const waiting = [refused(model, 60_000), refused(model, 20_000)];
    fake.clock.advance(6_999);
    expect(model.stats().slotsBusy).toBe(2);
    fake.clock.advance(1);
    for (const { error } of await Promise.all(waiting)) expect(error?.code).toBe("model_loading");
    expect((await refused(model, 27_000)).error).toMatchObject({ code: "model_loading", retryAfterMs: 5_000 });
  });

  it("a call waits for a restarting child for 90% of the stall limit, or until it is aborted", async () => {
    const model = await loadFake({ loads: ["ok", "hang"] });
    await crash(model);
    fake.clock.advance(100);
    await eventually(() => fake.lives === 2, "the second child");
    const leaver = new AbortController();
    const patient = outcome(model, "say 1");
    const leaving = outcome(model, "say 1", leaver.signal);
    leaver.abort();
    expect((await leaving).error).toMatchObject({ code: "aborted", usage: { outTokens: 0 } });
    fake.clock.advance(27_000);
    expect((await patient).error).toMatchObject({ code: "model_loading", retryable: true });
    expect(model.stats().slotsBusy).toBe(0);
  });
});

/** A call that waited for its slot, and ends by itself or when the clock advances. */
async function refused(model: LoadedModel, queueMs: number): ReturnType<typeof outcome> {
  const ending = outcome(model, "say 1", never, { queueMs });
  fake.clock.advance(0);
  return ending;
}

/** State letter of a process, e.g. T for stopped; null if the process does not exist. */
function processState(pid: number): string | null {
  try {
    return /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1] ?? null;
  } catch {
    return null;
  }
}

function isStopped(pid: number): boolean {
  return processState(pid) === "T";
}

function isAlive(pid: number): boolean {
  const state = processState(pid);
  return state !== null && state !== "Z";
}
