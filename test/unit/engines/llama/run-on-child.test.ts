import { afterEach, describe, expect, it } from "vitest";
import type { LoadedModel } from "../../../../src/domain/engine/engine.js";
import { eventually } from "../../../support/eventually.js";
import { FakeLlama, type FakeLlamaOptions, outcome, tell, textOf } from "../../../support/llama/fake-llama.js";

const never = new AbortController().signal;
let fake: FakeLlama;

afterEach(() => fake.close());

async function loadFake(options: FakeLlamaOptions = {}): Promise<LoadedModel> {
  fake = new FakeLlama(options);
  return fake.load();
}

/** Starts the next child as soon as the one of the moment has ended. */
async function restartAfterCrash(count: number): Promise<void> {
  await fake.ended(count);
  fake.clock.advance(200);
  await fake.loaded(count + 1);
}

/** Lets time pass in which the child answers its heartbeats. */
async function passSeconds(model: LoadedModel, seconds: number): Promise<void> {
  for (let second = 1; second <= seconds; second += 1) {
    fake.clock.advance(1_000);
    await model.countTokens({ prompt: "a round trip" }, never);
  }
}

describe("a call whose child ends", () => {
  it("is run once more when it had no output, and says accepted only once (REL-4)", async () => {
    const model = await loadFake();
    const running = outcome(model, "die-once");
    await restartAfterCrash(1);
    const { events, error } = await running;
    expect(error).toBeNull();
    expect(events.map((event) => event.type)).toEqual(["accepted", "text", "finish", "usage"]);
    expect(fake.lives).toBe(2);
    expect(model.stats()).toEqual({ slotsBusy: 0, producedTokens: 1, restarts: 1 });
  });

  it("is run no third time (REL-4)", async () => {
    const model = await loadFake();
    const running = outcome(model, "die-accepted");
    await restartAfterCrash(1);
    await fake.ended(2);
    expect((await running).error).toMatchObject({ code: "engine_restarted", retryable: true });
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("is not run again once it had output, and says what was produced (REL-4)", async () => {
    const model = await loadFake();
    const { events, error } = await outcome(model, "die-talking 3");
    expect(textOf(events)).toBe("t1 t2 t3 ");
    expect(error).toMatchObject({
      code: "engine_restarted",
      retryable: false,
      usage: { promptTokens: 7, outTokens: 3, cachedTokens: 2 },
    });
    expect(model.stats()).toMatchObject({ slotsBusy: 0, producedTokens: 3 });
  });

  it("ends together with all others of that child, each by its own state (REL-4)", async () => {
    const model = await loadFake();
    const talking = outcome(model, "deaf");
    await model.countTokens({ prompt: "a round trip" }, never);
    const silent = outcome(model, "die");
    await restartAfterCrash(1);
    expect((await talking).error).toMatchObject({ code: "engine_restarted", retryable: false });
    await fake.ended(2);
    expect((await silent).error).toMatchObject({ code: "engine_restarted", retryable: true });
  });

  it("holds for embeddings as well (REL-4)", async () => {
    const model = await loadFake({ kind: "embedding" });
    const running = model.embed({ inputs: ["die-once", "b"] }, never);
    await restartAfterCrash(1);
    expect((await running).vectors).toHaveLength(2);
  });

  it("is over when its second try has no output before the stall limit after the loss, and leaves its slot (REL-4)", async () => {
    const model = await loadFake();
    const running = [outcome(model, "die-slow 0"), outcome(model, "die-slow 0")];
    await restartAfterCrash(1);
    await passSeconds(model, 26);
    expect(model.stats().slotsBusy).toBe(2);
    await passSeconds(model, 1);
    for (const { error } of await Promise.all(running)) {
      expect(error).toMatchObject({ code: "engine_restarted", retryable: true });
    }
    expect((await outcome(model, "say 1")).error).toBeNull();
    expect(fake.lives).toBe(2);
  });

  it("goes on for as long as it takes when its second try had output in time (REL-4)", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = outcome(model, "die-slow 2", abort.signal);
    await restartAfterCrash(1);
    await passSeconds(model, 60);
    expect(model.stats().slotsBusy).toBe(1);
    abort.abort();
    expect((await running).error).toMatchObject({ code: "aborted", usage: { outTokens: 2 } });
  });

  it("is refused when its patience does not last for the next child", async () => {
    const model = await loadFake();
    const running = outcome(model, "stop");
    await eventually(() => model.stats().slotsBusy === 1);
    fake.clock.advance(30_000);
    expect((await running).error).toMatchObject({ code: "engine_restarted", retryable: true });
  });
});

describe("an aborted call", () => {
  it("ends with what the child says was produced", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = outcome(model, "endless", abort.signal);
    await model.countTokens({ prompt: "" }, never);
    abort.abort();
    const { error } = await running;
    expect(error?.code).toBe("aborted");
    expect(error?.usage).toMatchObject({ promptTokens: 7, cachedTokens: 2 });
    expect(model.stats()).toMatchObject({ slotsBusy: 0, producedTokens: error?.usage?.outTokens });
  });

  it("ends a second later with what was seen when the child says nothing", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = outcome(model, "deaf", abort.signal);
    await model.countTokens({ prompt: "" }, never);
    abort.abort();
    fake.clock.advance(999);
    expect(model.stats().slotsBusy).toBe(1);
    fake.clock.advance(1);
    expect((await running).error).toMatchObject({ code: "aborted", usage: { promptTokens: 7, outTokens: 1 } });
  });

  it("keeps its slot until the child has ended it, and the next call waits for that", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = [outcome(model, "deep", abort.signal), outcome(model, "deep", abort.signal)];
    await eventually(() => model.stats().slotsBusy === 2);
    abort.abort();
    fake.clock.advance(1_000);
    for (const { error } of await Promise.all(running)) expect(error?.code).toBe("aborted");

    const waiting = [outcome(model, "say 1"), outcome(model, "say 1")];
    expect((await outcome(model, "say 1")).error?.code).toBe("overloaded");
    expect(model.stats().slotsBusy).toBe(2);
    await model.countTokens({ prompt: "which ends what is deep" }, never);
    for (const { error } of await Promise.all(waiting)) expect(error).toBeNull();
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("leaves its slot to a call that can be aborted while it waits", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = [outcome(model, "deep", abort.signal), outcome(model, "deep")];
    await eventually(() => model.stats().slotsBusy === 2);
    abort.abort();
    const impatient = new AbortController();
    const waiting = outcome(model, "say 1", impatient.signal);
    impatient.abort();
    expect((await waiting).error?.code).toBe("aborted");
    expect(model.stats().slotsBusy).toBe(2);
    await model.countTokens({ prompt: "which ends what is deep" }, never);
    await Promise.all(running);
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("leaves its slot to the next call at the latest when its child counts as hung", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = [outcome(model, "deaf", abort.signal), outcome(model, "deaf", abort.signal)];
    await eventually(() => model.stats().slotsBusy === 2);
    abort.abort();
    const waiting = outcome(model, "say 1");
    for (let second = 1; second <= 27; second += 1) {
      fake.clock.advance(1_000);
      if (second < 27) await model.countTokens({ prompt: "an answer to the heartbeat" }, never);
    }
    await Promise.all(running);
    await fake.ended(1);
    fake.clock.advance(0);
    expect((await waiting).error).toMatchObject({ code: "model_loading", retryable: true });
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("that the child never ends makes the child count as hung (REL-4)", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = outcome(model, "deaf", abort.signal);
    await model.countTokens({ prompt: "" }, never);
    abort.abort();
    for (let second = 1; second <= 27; second += 1) {
      expect(fake.lines("engine process ended")).toEqual([]);
      fake.clock.advance(1_000);
      if (second < 27) await model.countTokens({ prompt: "an answer to the heartbeat" }, never);
    }
    expect((await running).error?.code).toBe("aborted");
    expect(fake.lines("engine process ended")[0]?.fields).toMatchObject({ why: "hung" });
  });

  it("is never sent when the signal was aborted before", async () => {
    const model = await loadFake();
    const { error } = await outcome(model, "die", AbortSignal.abort());
    expect(error).toMatchObject({ code: "aborted", usage: { outTokens: 0 } });
    expect((await outcome(model, "say 1")).error).toBeNull();
    expect(fake.lives).toBe(1);
  });

  it("is one that its reader left, too", async () => {
    const model = await loadFake();
    for await (const event of model.generate(tell("endless"), never)) if (event.type === "text") break;
    await eventually(() => model.stats().slotsBusy === 0);
    expect(model.stats().producedTokens).toBeGreaterThan(0);
  });
});
