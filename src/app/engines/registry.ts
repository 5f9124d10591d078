import { gpuSupport, llamaEngine } from "../../engines/llama/llama-engine.js";
import { scriptedEngine } from "../../engines/scripted/scripted-model.js";

export { gpuSupport };

/** The engines of this version. Configuration, doctor and composition read this list; a new engine is added here. */
export const engineKinds = [scriptedEngine, llamaEngine] as const;

export type EngineName = (typeof engineKinds)[number]["name"];

/** Names as the configuration writes them. */
export const engineNames = engineKinds.map(({ name }) => name) as [EngineName, ...EngineName[]];

/** The engine with that name. Throws where this version has none. */
export function engineKind(name: string | undefined): (typeof engineKinds)[number] {
  const kind = engineKinds.find((engine) => engine.name === name);
  if (kind === undefined) throw new Error(`there is no engine '${name}', only ${engineNames.join(" and ")}`);
  return kind;
}
