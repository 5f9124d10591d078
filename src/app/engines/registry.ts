import { gpuSupport, llamaEngine } from "../../engines/llama/llama-engine.js";
import { openAiEngine } from "../../engines/openai/openai-engine.js";
import { scriptedEngine } from "../../engines/scripted/scripted-model.js";

export { gpuSupport };

/** All engines. The configuration, `uis doctor` and the composition use this list. */
export const engineKinds = [scriptedEngine, llamaEngine, openAiEngine] as const;

export type EngineName = (typeof engineKinds)[number]["name"];

/** Names in the configuration. */
export const engineNames = engineKinds.map(({ name }) => name) as [EngineName, ...EngineName[]];

/** The engine with that name. Throws if there is none. */
export function engineKind(name: string | undefined): (typeof engineKinds)[number] {
  const kind = engineKinds.find((engine) => engine.name === name);
  if (kind === undefined) throw new Error(`there is no engine '${name}', only ${engineNames.join(", ")}`);
  return kind;
}
