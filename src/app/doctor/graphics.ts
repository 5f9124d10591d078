import { byteText } from "../../lib/display-text.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { type BuildRow, type EngineSettings, listBuilds } from "../engines/build-list.js";
import { type Card, findGraphics, type Graphics, thisMachine } from "../engines/graphics.js";
import { type Check, ok, warn } from "./check.js";

/** The graphics cards of this machine and the builds for them. `config.data_dir` is absolute. */
export async function graphicsCheck({ engine, data_dir: dataDir }: Config, env: Variables): Promise<Check> {
  const graphics = await findGraphics(thisMachine(env));
  return judgeGraphics(graphics, engine, await listBuilds(engine, dataDir, graphics));
}

/** Whether the graphics cards of this machine are used; if not, the command that enables them. */
export function judgeGraphics(
  graphics: Graphics,
  { gpu, module_dir: moduleDir }: Pick<EngineSettings, "gpu" | "module_dir">,
  builds: readonly BuildRow[],
): Check {
  const { cards, nvidiaDriver, closedDevices } = graphics;
  const name = "gpu";
  const used = builds.find((build) => build.in_use && build.name !== "cpu");
  if (cards.length === 0) {
    const effect = used === undefined ? "models run on the processor" : `the build ${used.name} is tried first`;
    return ok(name, `no graphics card was found; ${effect}`);
  }
  const driver = nvidiaDriver === null ? "" : `, driver ${nvidiaDriver}`;
  const detail = `${[...new Set(cards.map(cardText))].join(", ")}${driver}`;
  if (gpu === "off") return ok(name, `${detail}; not used, because engine.gpu is off`);
  if (moduleDir !== null) return ok(name, `${detail}; engine.module_dir selects the build`);
  if (used !== undefined) {
    if (used.name !== "vulkan" || closedDevices.length === 0)
      return ok(name, `${detail}; the build ${used.name} is used`);
    return warn(name, `${detail}; this user has no permission to open ${closedDevices.join(", ")}`, groupsFix);
  }
  const advice = adviceFor(graphics, builds);
  if (advice === null) return ok(name, `${detail}; there is no build for it, and models run on the processor`);
  // Graphics of the processor share its memory, so a build for them gains little.
  if (cards.every(({ vendor }) => vendor === "intel")) return ok(name, `${detail}; optional: ${advice}`);
  return warn(name, `${detail}; models run on the processor`, advice);
}

const groupsFix = "add the user to the groups of these files: usermod -aG render,video USER, then restart the service";

function cardText({ name, memoryBytes }: Card): string {
  return memoryBytes === null ? name : `${name} (${byteText(memoryBytes)})`;
}

/** The next step to use the best card; null if there is no build for it. */
function adviceFor(
  { cards, nvidiaDriver, hasCudaRuntime, hasVulkan }: Graphics,
  builds: readonly BuildRow[],
): string | null {
  const canHave = (name: BuildRow["name"]) => builds.some((build) => build.name === name && build.bytes !== null);
  const hasNvidia = cards.some(({ vendor }) => vendor === "nvidia");
  if (hasNvidia && nvidiaDriver === null) return "install NVIDIA's driver; in a container, give it access to the card";
  if (hasNvidia && hasCudaRuntime && canHave("cuda")) return "uis engine install cuda";
  if (!canHave("vulkan")) return null;
  const loader = hasVulkan ? "" : "install the Vulkan loader (Debian, Ubuntu: libvulkan1) and the card's driver, then ";
  const orCuda =
    hasNvidia && canHave("cuda") ? "; or install the CUDA 12 or 13 runtime, then uis engine install cuda" : "";
  return `${loader}uis engine install vulkan${orCuda}`;
}
