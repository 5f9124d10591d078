import {
  type BuildChoice,
  type BuildName,
  type BuildSettings,
  buildsFor,
  chooseBuild,
  type EngineBuild,
  firstBuild,
  isInstalled,
  type System,
  systemName,
} from "../../engines/llama/builds/builds.js";
import { findInstalledPackages } from "../../engines/llama/builds/installed-builds.js";
import type { Card, Graphics } from "./graphics.js";

/** `engine:` of the configuration, as far as it concerns builds. */
export interface EngineSettings {
  readonly gpu: BuildSettings["gpu"];
  readonly gpu_layers: number | null;
  readonly module_dir: string | null;
}

/** Chooses among the builds that are installed now. `dataDir` is absolute. */
export async function chooseInstalledBuild(
  { gpu, gpu_layers: gpuLayers, module_dir: moduleDir }: EngineSettings,
  dataDir: string,
  system: System = process,
): Promise<BuildChoice> {
  const installed = await findInstalledPackages(dataDir, system);
  return chooseBuild({ gpu, gpuLayers, moduleDir }, system, installed);
}

/** A line of `uis engine list`. The field names are those of `--json`. */
export interface BuildRow {
  readonly name: BuildName;
  /** The system that the packages are for. */
  readonly platform: string;
  readonly installed: boolean;
  /** Whether models that are loaded from now on try the build first. */
  readonly in_use: boolean;
  /** Size on disk, and of the download; null if the build is not published for this system. */
  readonly bytes: number | null;
  readonly download_bytes: number | null;
  /** Why the build is not in use; null if it is. */
  readonly note: string | null;
}

/** Every build, whether it is installed, and why it is not in use. */
export async function listBuilds(
  settings: EngineSettings,
  dataDir: string,
  { cards }: Pick<Graphics, "cards">,
  system: System = process,
): Promise<readonly BuildRow[]> {
  const installed = await findInstalledPackages(dataDir, system);
  const { gpu, gpu_layers: gpuLayers, module_dir: moduleDir } = settings;
  const first = firstBuild(chooseBuild({ gpu, gpuLayers, moduleDir }, system, installed));
  return buildsFor(system).map((build): BuildRow => {
    const isThere = isInstalled(build, installed);
    const inUse = isThere && build.name === first;
    const sum = (field: "bytes" | "packedBytes") =>
      build.packages.length === 0 ? null : build.packages.reduce((total, one) => total + one[field], 0);
    return {
      name: build.name,
      platform: systemName(system),
      installed: isThere,
      in_use: inUse,
      bytes: sum("bytes"),
      download_bytes: sum("packedBytes"),
      note: inUse ? null : whyNot(build, { isThere, first, settings, cards }),
    };
  });
}

interface Circumstances {
  readonly isThere: boolean;
  readonly first: BuildName | null;
  readonly settings: EngineSettings;
  readonly cards: readonly Card[];
}

function whyNot({ name, absence }: EngineBuild, { isThere, first, settings, cards }: Circumstances): string {
  if (absence !== null) return absence;
  if (settings.module_dir !== null) return "engine.module_dir selects another installation";
  if (isThere && name === "cpu") return `used if ${first} does not load`;
  if (isThere) return settings.gpu === "off" ? "engine.gpu is off" : `${first} is preferred`;
  const command = `uis engine install ${name}`;
  if (name === "cuda" && !cards.some(({ vendor }) => vendor === "nvidia")) return "no NVIDIA card was found";
  if (name === "vulkan" && cards.length === 0) return "no graphics card was found";
  return command;
}
