import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { loadModel } from "../../../../src/engines/llama/child/load-model.js";
import { StepBatcher } from "../../../../src/engines/llama/child/steps.js";
import { gpuSupport } from "../../../../src/engines/llama/llama-engine.js";
import { FakeLlama, outcome, textOf } from "../../../support/llama/fake-llama.js";

const manifest = JSON.parse(readFileSync("node_modules/node-llama-cpp/package.json", "utf8"));
const builds = Object.keys(manifest.optionalDependencies);

/** Replaces properties of the process until the test ends. */
function pretend(machine: { readonly platform: string; readonly arch: string }): void {
  for (const [name, value] of Object.entries(machine)) {
    const before = Object.getOwnPropertyDescriptor(process, name) ?? {};
    Object.defineProperty(process, name, { ...before, value });
    onTestFinished(() => void Object.defineProperty(process, name, before));
  }
}

describe("the build of the binding", () => {
  it("uses Metal on Apple silicon, where all builds support it", () => {
    expect(builds.filter((name) => name.includes("/mac-arm64"))).toEqual(["@node-llama-cpp/mac-arm64-metal"]);
    expect(gpuSupport({ platform: "darwin", arch: "arm64" }, null)).toBe("auto");
  });

  it("uses no GPU elsewhere, unless the operator installed another binding", () => {
    for (const [platform, arch, build] of [
      ["linux", "x64", "linux-x64"],
      ["linux", "arm64", "linux-arm64"],
      ["win32", "x64", "win-x64"],
      ["darwin", "x64", "mac-x64"],
    ] as const) {
      expect(builds).toContain(`@node-llama-cpp/${build}`);
      expect(gpuSupport({ platform, arch }, null)).toBe(false);
      expect(gpuSupport({ platform, arch }, "/opt/binding")).toBe("auto");
    }
  });

  it.each([
    [{ platform: "darwin", arch: "arm64" }, "auto"],
    [{ platform: "linux", arch: "x64" }, false],
  ] as const)("is chosen for the machine %o and sent to the process that loads the model", async (machine, gpu) => {
    const fake = new FakeLlama();
    onTestFinished(() => fake.close());
    pretend(machine);
    const model = await fake.load();
    expect(JSON.parse(textOf((await outcome(model, "gpu")).events))).toBe(gpu);
  });

  it.each(["auto", false] as const)("is loaded by that process with `gpu: %j`", async (gpu) => {
    const moduleDir = await mkdtemp(join(tmpdir(), "uis-binding-"));
    onTestFinished(() => rm(moduleDir, { recursive: true }));
    const path = join(moduleDir, "node_modules/node-llama-cpp/dist/index.js");
    await mkdir(dirname(path), { recursive: true });
    const getLlama = 'async ({ gpu }) => { throw new Error("called with gpu: " + gpu); }';
    await writeFile(path, `export const LlamaLogLevel = {}; export const getLlama = ${getLlama};`);
    const spec = { id: "m", path, kind: "chat", contextLength: 512, slots: 1, threads: 1, moduleDir, gpu } as const;
    const loading = loadModel(spec, { batcher: new StepBatcher(), onProgress: () => {}, onLog: () => {} });
    await expect(loading).rejects.toThrow(`called with gpu: ${gpu}`);
  });
});
