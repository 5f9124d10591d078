import { afterEach, describe, expect, it } from "vitest";
import { eventually } from "../../../support/eventually.js";
import { FakeLlama, type FakeLlamaOptions, outcome, textOf } from "../../../support/llama/fake-llama.js";
import { processorBuild } from "../../../support/llama/processor-build.js";

let fake: FakeLlama;

afterEach(() => fake.close());

function prepare(options: FakeLlamaOptions = {}): FakeLlama {
  fake = new FakeLlama(options);
  return fake;
}

describe("llamaEngine", () => {
  it("a load resolves when the child has loaded the model, and reports its progress", async () => {
    await prepare().load();
    expect(fake.progress).toEqual([{ stage: "loading", share: 0.5 }]);
    expect(fake.lives).toBe(1);
  });

  it("the load of an unusable model rejects with the cause and leaves no child", async () => {
    await expect(prepare({ loads: ["fail"] }).load()).rejects.toMatchObject({
      code: "model_not_loaded",
      message: "the model 'm' could not be loaded: bad magic",
    });
    expect(fake.clock.pending).toBe(0);
    expect(fake.lives).toBe(1);
  });

  it("a load whose child exits rejects with the child's last output", async () => {
    await expect(prepare({ loads: ["die"] }).load()).rejects.toMatchObject({
      code: "model_not_loaded",
      message:
        "the model 'm' could not be loaded: the process that loads it was ended by SIGKILL; it wrote last: GGML_ASSERT(x) failed",
    });
  });

  it("a child that hangs while it loads is killed within the stall limit (REL-4)", async () => {
    const loading = prepare({ loads: ["hang"] }).load();
    const failed = expect(loading).rejects.toMatchObject({ code: "model_not_loaded" });
    await eventually(() => fake.lives === 1);
    fake.clock.advance(30_000);
    await failed;
  });

  it("models that use a graphics card load one after another, because each load uses all free memory", async () => {
    const build = { ...processorBuild, gpus: ["vulkan", false] } as const;
    const abort = new AbortController();
    const first = prepare({ loads: ["hang", "ok"], settings: { build } }).load(abort.signal);
    await eventually(() => fake.lives === 1);
    const second = fake.load();
    const cancelled = expect(fake.load(AbortSignal.abort())).rejects.toMatchObject({ code: "aborted" });
    // Another engine would load the second model in the same time if it did not wait for the first.
    const other = new FakeLlama();
    await other.load().finally(() => other.close());
    await cancelled;
    expect(fake.lives).toBe(1);
    abort.abort();
    await expect(first).rejects.toMatchObject({ code: "aborted" });
    await second;
    expect(fake.lines("the model runs on the graphics card")).toMatchObject([
      { level: "info", fields: { model: "m", gpu: "vulkan", gpu_layers: 3, layers: 4 } },
    ]);
  });

  it("the child gets the build that was chosen at the start", async () => {
    const build = {
      gpus: ["cuda", false],
      packages: { "linux-x64-cuda": "/p" },
      gpuLayers: 20,
      moduleDir: null,
    } as const;
    const model = await prepare({ settings: { build } }).load();
    expect(JSON.parse(textOf((await outcome(model, "build")).events))).toEqual(build);
  });

  it("an aborted load ends the child", async () => {
    const abort = new AbortController();
    const loading = prepare({ loads: ["hang"] }).load(abort.signal);
    await eventually(() => fake.lives === 1);
    abort.abort();
    await expect(loading).rejects.toMatchObject({ code: "aborted" });
    expect(fake.clock.pending).toBe(0);
    await expect(fake.load(AbortSignal.abort())).rejects.toMatchObject({ code: "aborted" });
  });

  it("the child gets only the environment variables that it needs", async () => {
    const environment = { PATH: "/bin", HOME: "/h", LANG: "C", UIS_MASTER_KEY: "secret", NODE_OPTIONS: "--inspect" };
    const model = await prepare({ environment }).load();
    const seen = JSON.parse(textOf((await outcome(model, "env")).events)) as Record<string, string>;
    expect(Object.keys(seen).filter((name) => !name.startsWith("NODE_CHANNEL_"))).toEqual([
      "PATH",
      "HOME",
      "LANG",
      "UV_THREADPOOL_SIZE",
    ]);
  });

  it("the child's output is logged without control characters", async () => {
    const model = await prepare().load();
    await outcome(model, "warn");
    await eventually(() => fake.lines("engine process wrote").length === 2);
    expect(fake.lines("engine process wrote").map(({ level, fields }) => [level, fields["line"]])).toEqual([
      ["debug", "plain line"],
      ["warn", "ERROR: bad thing"],
    ]);
  });
});
