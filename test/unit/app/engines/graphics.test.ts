import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { describeProbe } from "../../../../src/app/doctor/engine.js";
import { judgeGraphics } from "../../../../src/app/doctor/graphics.js";
import { type EngineSettings, listBuilds } from "../../../../src/app/engines/build-list.js";
import { findGraphics, type Graphics, type Machine } from "../../../../src/app/engines/graphics.js";
import type { System } from "../../../../src/app/engines/registry.js";

let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-graphics-"));
});
afterEach(() => rm(root, { recursive: true }));

interface Pretended {
  readonly system?: System;
  readonly files?: Readonly<Record<string, string>>;
  readonly env?: Machine["env"];
  readonly nvidiaSmi?: string;
}

/** Finds the graphics cards of a simulated machine with these files. */
async function find({ system, files = {}, env = {}, nvidiaSmi }: Pretended): Promise<Graphics> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  const run = async (command: string) => (command === "nvidia-smi" ? (nvidiaSmi ?? null) : null);
  return await findGraphics({ system: system ?? { platform: "linux", arch: "x64" }, root, env, run });
}

const cuda13 = { "etc/ld.so.cache": "x\0libcudart.so.13\0libcublas.so.13\0libvulkan.so.1\0" };
const vulkanOnly = { "etc/ld.so.cache": "libvulkan.so.1\0libvulkan.so\0" };
const h100 = "NVIDIA H100 80GB HBM3, 580.65.06, 81559\n";

describe("findGraphics", () => {
  it("reads NVIDIA's cards from nvidia-smi, with memory and driver", async () => {
    const found = await find({ nvidiaSmi: h100.repeat(2), files: cuda13 });
    const card = { vendor: "nvidia", name: "NVIDIA H100 80GB HBM3", memoryBytes: 81_559 * 1_048_576 };
    expect(found).toEqual({
      cards: [card, card],
      nvidiaDriver: "580.65.06",
      hasCudaRuntime: true,
      hasVulkan: true,
      closedDevices: [],
    });
  });

  it("reads NVIDIA's driver from /proc if its command is missing", async () => {
    const files = {
      "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12",
      "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA GeForce RTX 3060\nIRQ: 142\n",
      "sys/class/drm/card0/device/vendor": "0x10de\n",
    };
    const { cards, nvidiaDriver } = await find({ files });
    expect(cards).toEqual([{ vendor: "nvidia", name: "NVIDIA GeForce RTX 3060", memoryBytes: null }]);
    expect(nvidiaDriver).toBe("535.183.01");
  });

  it("reads other cards from sysfs, and ignores virtual cards", async () => {
    const files = {
      "sys/class/drm/card0/device/vendor": "0x1002\n",
      "sys/class/drm/card0/device/mem_info_vram_total": "17163091968\n",
      "sys/class/drm/card0-HDMI-A-1/device/vendor": "0x1002\n",
      "sys/class/drm/card1/device/vendor": "0x8086\n",
      "sys/class/drm/card2/device/vendor": "0x1af4\n",
    };
    expect((await find({ files })).cards).toEqual([
      { vendor: "amd", name: "AMD card", memoryBytes: 17_163_091_968 },
      { vendor: "intel", name: "Intel graphics", memoryBytes: null },
    ]);
  });

  it("finds libraries in the linker's cache and in LD_LIBRARY_PATH, and needs all libraries of CUDA's runtime", async () => {
    const cudart = { "etc/ld.so.cache": "libcudart.so.12\0" };
    expect((await find({ files: cudart })).hasCudaRuntime).toBe(false);
    const files = { ...cudart, "opt/cuda/libcublas.so.12": "" };
    const env = { LD_LIBRARY_PATH: "/none:/opt/cuda" };
    expect(await find({ files, env })).toMatchObject({ hasCudaRuntime: true, hasVulkan: false });
  });

  it("works on Windows and on Apple silicon", async () => {
    const env = { SystemRoot: "Windows", CUDA_PATH: "cuda" };
    const files = {
      "Windows/System32/VULKAN-1.DLL": "",
      "cuda/bin/cudart64_12.dll": "",
      "cuda/bin/cublas64_12.dll": "",
    };
    const windows = await find({ system: { platform: "win32", arch: "x64" }, env, files, nvidiaSmi: h100 });
    expect(windows).toMatchObject({ hasVulkan: true, hasCudaRuntime: true, cards: [{ vendor: "nvidia" }] });
    const apple = await find({ system: { platform: "darwin", arch: "arm64" } });
    expect(apple.cards).toEqual([{ vendor: "apple", name: "Apple GPU", memoryBytes: null }]);
  });
});

describe("uis doctor about graphics cards", () => {
  const auto: EngineSettings = { gpu: "auto", gpu_layers: null, module_dir: null };

  async function judge(machine: Pretended, settings: Partial<EngineSettings> = {}) {
    const { system = { platform: "linux", arch: "x64" } } = machine;
    const engine = { ...auto, ...settings };
    const graphics = await find(machine);
    return judgeGraphics(graphics, engine, await listBuilds(engine, root, graphics, system));
  }

  it("prints the command that installs a build for an NVIDIA card", async () => {
    expect(await judge({ nvidiaSmi: h100, files: cuda13 })).toEqual({
      check: "gpu",
      status: "warn",
      detail: "NVIDIA H100 80GB HBM3 (85.5 GB), driver 580.65.06; models run on the processor",
      fix: "uis engine install cuda",
    });
    const { fix } = await judge({ nvidiaSmi: h100, files: vulkanOnly });
    expect(fix).toBe("uis engine install vulkan; or install the CUDA 12 or 13 runtime, then uis engine install cuda");
  });

  it("prints how to install a missing driver or loader first", async () => {
    const nvidia = { "sys/class/drm/card0/device/vendor": "0x10de", "etc/ld.so.cache": "" };
    expect((await judge({ files: nvidia })).fix).toContain("install NVIDIA's driver");
    const amd = { "sys/class/drm/card0/device/vendor": "0x1002", "etc/ld.so.cache": "" };
    expect((await judge({ files: amd })).fix).toMatch(/^install the Vulkan loader .*, then uis engine install vulkan$/);
  });

  it("is ok without a card, with engine.gpu off, and if no build exists for the system", async () => {
    expect(await judge({})).toMatchObject({ status: "ok", detail: expect.stringContaining("no graphics card") });
    const off = await judge({ nvidiaSmi: h100 }, { gpu: "off" });
    expect(off).toMatchObject({ status: "ok", detail: expect.stringContaining("engine.gpu is off") });
    const arm = await judge({ nvidiaSmi: h100, system: { platform: "linux", arch: "arm64" } });
    expect(arm).toMatchObject({ status: "ok", detail: expect.stringContaining("there is no build for it") });
  });

  it("warns if the user has no permission to open the device file that Vulkan needs", async () => {
    const graphics = { ...(await find({ files: { "sys/class/drm/card0/device/vendor": "0x1002" } })) };
    const [row] = await listBuilds(auto, root, graphics, { platform: "linux", arch: "x64" });
    if (row === undefined) throw new Error("there are no builds");
    const vulkan = { ...row, name: "vulkan", in_use: true } as const;
    const closed = { ...graphics, closedDevices: ["/dev/dri/renderD128"] };
    expect(judgeGraphics(closed, auto, [vulkan])).toMatchObject({
      status: "warn",
      fix: expect.stringContaining("render,video"),
    });
    expect(judgeGraphics(graphics, auto, [vulkan])).toMatchObject({ status: "ok" });
  });
});

describe("uis engine list", () => {
  it("states for every build why it is not in use", async () => {
    const auto: EngineSettings = { gpu: "auto", gpu_layers: null, module_dir: null };
    const system = { platform: "linux", arch: "x64" } as const;
    const notes = async (settings: EngineSettings, machine: Pretended) => {
      const rows = await listBuilds(settings, root, await find(machine), system);
      return Object.fromEntries(rows.map(({ name, note }) => [name, note]));
    };
    expect(await notes(auto, { nvidiaSmi: h100 })).toEqual({
      cpu: null,
      metal: "for Apple silicon only",
      cuda: "uis engine install cuda",
      vulkan: "uis engine install vulkan",
      rocm: "node-llama-cpp has no build for ROCm; AMD cards use the build vulkan",
    });
    expect(await notes(auto, {})).toMatchObject({
      cuda: "no NVIDIA card was found",
      vulkan: "no graphics card was found",
    });
    const elsewhere = await notes({ ...auto, module_dir: "/opt/binding" }, {});
    expect(elsewhere["cpu"]).toBe("engine.module_dir selects another installation");
  });
});

describe("uis doctor about the engine", () => {
  const probed = { version: "3.21.1", devices: ["NVIDIA H100"], freeBytes: 79e9, totalBytes: 80e9 };

  it("shows the build, the card and its free memory", () => {
    expect(describeProbe({ ...probed, gpu: "cuda", unusable: [] })).toMatchObject({
      status: "ok",
      detail: "node-llama-cpp 3.21.1 loads with cuda on NVIDIA H100, 79.0 GB of 80.0 GB free",
    });
  });

  it("warns of installed builds that do not load, and names the missing drivers", () => {
    const one = describeProbe({ ...probed, gpu: null, unusable: ["cuda"] });
    expect(one.detail).toBe("node-llama-cpp 3.21.1 loads; the build cuda does not load here");
    expect(one.fix).toMatch(/libcudart.*uis engine install vulkan/);
    const both = describeProbe({ ...probed, gpu: null, unusable: ["cuda", "vulkan"] });
    expect(both).toMatchObject({
      status: "warn",
      detail: expect.stringContaining("builds cuda and vulkan do not load"),
    });
  });
});
