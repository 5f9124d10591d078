import type { EngineKind } from "../../domain/engine/engine.js";
import { gpuSupport, llamaEngine } from "../../engines/llama/llama-engine.js";
import { scriptedEngine } from "../../engines/scripted/scripted-model.js";

export { gpuSupport };

/** All engines. The configuration, `uis doctor` and the composition use this list. */
export const engineKinds = [scriptedEngine, llamaEngine] as const;

export type EngineName = (typeof engineKinds)[number]["name"];

/** The engine of upstreams, as far as the configuration reads it. */
const openaiSettings = {
  name: "openai",
  settings: ["upstream", "model", "pass_through"],
  defaults: { slots: 256, slotsMax: 65_536 },
} as const satisfies Pick<EngineKind<never>, "name" | "settings" | "defaults">;

/** Settings of all engines, also of one that this process cannot create. */
export const engineSettings = [...engineKinds, openaiSettings] as const;

/** Names in the configuration. */
export const engineNames = engineSettings.map(({ name }) => name) as [ConfiguredEngine, ...ConfiguredEngine[]];

type ConfiguredEngine = (typeof engineSettings)[number]["name"];

/** The engine with that name. Throws if there is none. */
export function engineKind(name: string | undefined): (typeof engineKinds)[number] {
  const kind = engineKinds.find((engine) => engine.name === name);
  if (kind !== undefined) return kind;
  throw new Error(`there is no engine '${name}', only ${engineKinds.map((one) => one.name).join(" and ")}`);
}
