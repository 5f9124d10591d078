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

/** Starts the next child as soon as the current one has ended. */
async function restartAfterCrash(count: number): Promise<void> {
  await fake.ended(count);
  fake.clock.advance(200);
  await fake.loaded(count + 1);
}

/** Advances the clock while the child answers its heartbeats. */
async function passSeconds(model: LoadedModel, seconds: number): Promise<void> {
  for (let second = 1; second <= seconds; second += 1) {
    fake.clock.advance(1_000);
    await model.countTokens?.({ prompt: "a round trip" }, never);
  }
}

describe("a call whose child ends", () => {
  it("is run once more if it had no output, with one accepted event (REL-4)", async () => {
    const model = await loadFake();
    const running = outcome(model, "die-once");
    await restartAfterCrash(1);
    const { events, error } = await running;
    expect(error).toBeNull();
    expect(events.map((event) => event.type)).toEqual(["accepted", "text", "finish", "usage"]);
    expect(fake.lives).toBe(2);
    expect(model.stats()).toMatchObject({ slotsBusy: 0, producedTokens: 1, restarts: 1 });
  });

  it("is not run a third time (REL-4)", async () => {
    const model = await loadFake();
    const running = outcome(model, "die-accepted");
    await restartAfterCrash(1);
    await fake.ended(2);
    expect((await running).error).toMatchObject({ code: "engine_restarted", retryable: true });
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("is not run again after output, and reports the usage (REL-4)", async () => {
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

  it("fails or is run again depending on its own output, independently of other calls of that child (REL-4)", async () => {
    const model = await loadFake();
    const talking = outcome(model, "deaf");
    await model.countTokens?.({ prompt: "a round trip" }, never);
    const silent = outcome(model, "die");
    await restartAfterCrash(1);
    expect((await talking).error).toMatchObject({ code: "engine_restarted", retryable: false });
    await fake.ended(2);
    expect((await silent).error).toMatchObject({ code: "engine_restarted", retryable: true });
  });

  it("is run once more if it is an embeddings call (REL-4)", async () => {
    const model = await loadFake({ kind: "embedding" });
    const running = model.embed({ inputs: ["die-once", "b"] }, never);
    await restartAfterCrash(1);
    expect((await running).vectors).toHaveLength(2);
  });

  it("fails and frees its slot if the next child has no output within the stall limit after the loss (REL-4)", async () => {
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

  it("continues without a time limit if the next child had output in time (REL-4)", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = outcome(model, "die-slow 2", abort.signal);
    await restartAfterCrash(1);
    await passSeconds(model, 60);
    expect(model.stats().slotsBusy).toBe(1);
    abort.abort();
    expect((await running).error).toMatchObject({ code: "aborted", usage: { outTokens: 2 } });
  });

  it("is rejected if the next child is not ready in time", async () => {
    const model = await loadFake();
    const running = outcome(model, "stop");
    await eventually(() => model.stats().slotsBusy === 1);
    fake.clock.advance(30_000);
    expect((await running).error).toMatchObject({ code: "engine_restarted", retryable: true });
  });
});

describe("an aborted call", () => {
  it("ends with the usage that the child reports", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = outcome(model, "endless", abort.signal);
    await model.countTokens?.({ prompt: "" }, never);
    abort.abort();
    const { error } = await running;
    expect(error?.code).toBe("aborted");
    expect(error?.usage).toMatchObject({ promptTokens: 7, cachedTokens: 2 });
    expect(model.stats()).toMatchObject({ slotsBusy: 0, producedTokens: error?.usage?.outTokens });
  });

  it("ends with the usage so far after one second if the child does not answer", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = outcome(model, "deaf", abort.signal);
    await model.countTokens?.({ prompt: "" }, never);
    abort.abort();
    fake.clock.advance(999);
    expect(model.stats().slotsBusy).toBe(1);
    fake.clock.advance(1);
    expect((await running).error).toMatchObject({ code: "aborted", usage: { promptTokens: 7, outTokens: 1 } });
  });

  it("keeps its slot until the child has ended it, and the next call waits for the slot", async () => {
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
    await model.countTokens?.({ prompt: "which ends what is deep" }, never);
    for (const { error } of await Promise.all(waiting)) expect(error).toBeNull();
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("keeps its slot even if the next call is aborted while it waits for the slot", async () => {
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
    await model.countTokens?.({ prompt: "which ends what is deep" }, never);
    await Promise.all(running);
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("blocks the next call at most until its child counts as hung", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = [outcome(model, "deaf", abort.signal), outcome(model, "deaf", abort.signal)];
    await eventually(() => model.stats().slotsBusy === 2);
    abort.abort();
    const waiting = outcome(model, "say 1");
    for (let second = 1; second <= 27; second += 1) {
      fake.clock.advance(1_000);
      if (second < 27) await model.countTokens?.({ prompt: "an answer to the heartbeat" }, never);
    }
    await Promise.all(running);
    await fake.ended(1);
    fake.clock.advance(0);
    expect((await waiting).error).toMatchObject({ code: "model_loading", retryable: true });
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("makes the child count as hung if it never ends the call (REL-4)", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = outcome(model, "deaf", abort.signal);
    await model.countTokens?.({ prompt: "" }, never);
    abort.abort();
    for (let second = 1; second <= 27; second += 1) {
      expect(fake.lines("engine process ended")).toEqual([]);
      fake.clock.advance(1_000);
      if (second < 27) await model.countTokens?.({ prompt: "an answer to the heartbeat" }, never);
    }
    expect((await running).error?.code).toBe("aborted");
    expect(fake.lines("engine process ended")[0]?.fields).toMatchObject({ why: "hung" });
  });

  it("is not sent to the child if its signal had aborted before", async () => {
    const model = await loadFake();
    const { error } = await outcome(model, "die", AbortSignal.abort());
    expect(error).toMatchObject({ code: "aborted", usage: { outTokens: 0 } });
    expect((await outcome(model, "say 1")).error).toBeNull();
    expect(fake.lives).toBe(1);
  });

  it("ends with the reader's error if its reader failed", async () => {
    const model = await loadFake();
    const reading = model.generate(tell("endless"), never, (event) => {
      if (event.type === "text") throw new Error("the reader failed");
      return undefined;
    });
    await expect(reading).rejects.toThrow("the reader failed");
    await eventually(() => model.stats().slotsBusy === 0);
    expect(model.stats().producedTokens).toBeGreaterThan(0);
  });
});
