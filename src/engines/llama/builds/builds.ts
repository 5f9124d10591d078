import { type PublishedPackage, publishedPackages } from "./published-builds.js";

/**
 * Builds of llama.cpp: for the processor, and for kinds of graphics cards. Each is one or two packages with binaries for
 * one system. This module decides which builds exist for a system and which one a model's process tries first; it reads
 * nothing from the disk.
 */

export const buildNames = ["cpu", "metal", "cuda", "vulkan", "rocm"] as const;
export type BuildName = (typeof buildNames)[number];

/** Kinds of graphics support, the preferred one first. */
const gpuKinds = ["metal", "cuda", "vulkan"] as const;
export type GpuKind = (typeof gpuKinds)[number];

export type System = Pick<NodeJS.Process, "platform" | "arch">;

export interface EngineBuild {
  readonly name: BuildName;
  /** Empty if the build is not published for this system. */
  readonly packages: readonly PublishedPackage[];
  /** Why the build is not published for this system; null if it is. */
  readonly absence: string | null;
}

const platformNames: Readonly<Partial<Record<NodeJS.Platform, string>>> = { darwin: "mac", win32: "win" };

/** The name of a system in the names of packages, such as `linux-x64` and `mac-arm64`. */
export function systemName({ platform, arch }: System): string {
  return `${platformNames[platform] ?? platform}-${arch === "arm" ? "armv7l" : arch}`;
}

/** The scope of the packages with binaries. */
export const packageScope = "@node-llama-cpp/";

/** Every build by name, with its packages for the system. */
export function buildsFor(system: System): readonly EngineBuild[] {
  const name = systemName(system);
  return buildNames.map((build) => {
    const ids = build === "cpu" ? [name] : [`${name}-${build}`, `${name}-${build}-ext`];
    const packages = ids.flatMap((id) => publishedPackages.filter((published) => published.id === id));
    return { name: build, packages, absence: packages.length > 0 ? null : absenceOf(build, name) };
  });
}

function absenceOf(build: BuildName, system: string): string {
  if (build === "rocm") return "node-llama-cpp has no build for ROCm; AMD cards use the build vulkan";
  if (build === "metal") return "for Apple silicon only";
  if (build === "cpu" && system === "mac-arm64") return "the build metal also runs on the processor";
  return `node-llama-cpp has no such build for ${system}`;
}

/** Settings of the embedded engine, from `engine:` of the configuration. */
export interface BuildSettings {
  readonly gpu: "auto" | "off";
  /** Maximum number of layers on the card; null: as many as fit. */
  readonly gpuLayers: number | null;
  /** Folder whose `node_modules` contains another installation of the binding; null: the service's own. */
  readonly moduleDir: string | null;
}

/** How a model's process opens the binding. */
export interface BuildChoice {
  /** Graphics support to try, in order; the first that loads is used. `auto`: the binding decides; `false`: the processor. */
  readonly gpus: readonly (GpuKind | "auto" | false)[];
  /** Folders of packages that the binding does not find by itself, by package id. */
  readonly packages: Readonly<Record<string, string>>;
  /** Maximum number of layers on the card; null: as many as fit. */
  readonly gpuLayers: number | null;
  readonly moduleDir: string | null;
}

/** Folders of installed packages by package id; null: the package is next to the binding, which finds it by itself. */
export type InstalledPackages = ReadonlyMap<string, string | null>;

/** Chooses among the installed packages. Another installation of the binding has packages of its own. */
export function chooseBuild(
  { gpu, gpuLayers, moduleDir }: BuildSettings,
  system: System,
  installed: InstalledPackages,
): BuildChoice {
  const onlyMetal = systemName(system) === "mac-arm64";
  if (moduleDir !== null) {
    if (gpu === "auto") return { gpus: ["auto"], packages: {}, gpuLayers, moduleDir };
    return { gpus: [onlyMetal && "metal"], packages: {}, gpuLayers: 0, moduleDir };
  }
  const usable = new Map(buildsFor(system).map((build) => [build.name, isInstalled(build, installed)]));
  const cards = gpu === "off" ? [] : gpuKinds.filter((kind) => usable.get(kind) === true);
  return {
    // On Apple silicon the build for Metal is the only one; without layers on the card it computes on the processor.
    gpus: onlyMetal ? ["metal"] : [...cards, false],
    packages: Object.fromEntries([...installed].flatMap(([id, folder]) => (folder === null ? [] : [[id, folder]]))),
    gpuLayers: gpu === "off" ? 0 : gpuLayers,
    moduleDir,
  };
}

/** Whether all packages of the build are installed. */
export function isInstalled({ packages }: EngineBuild, installed: InstalledPackages): boolean {
  return packages.length > 0 && packages.every(({ id }) => installed.has(id));
}

/** The build that is tried first; null: the binding in `engine.module_dir` decides. */
export function firstBuild({ gpus, gpuLayers }: BuildChoice): BuildName | null {
  const [first = false] = gpus;
  if (first === "auto") return null;
  return first === false || (gpuLayers === 0 && first !== "metal") ? "cpu" : first;
}
