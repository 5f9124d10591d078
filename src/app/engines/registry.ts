import type { UpstreamKind } from "../../domain/engine/upstream.js";
import { llamaEngine } from "../../engines/llama/llama-engine.js";
import { openAiEngine } from "../../engines/openai/openai-engine.js";
import { kindProfiles } from "../../engines/openai/protocol/kinds.js";
import { scriptedEngine } from "../../engines/scripted/scripted-model.js";

export {
  type BuildChoice,
  type BuildName,
  buildNames,
  buildsFor,
  type System,
} from "../../engines/llama/builds/builds.js";
export { type ProbeResult, probe } from "../../engines/llama/probe.js";

/** All engines. The configuration, `uis doctor` and the composition use this list. */
export const engineKinds = [scriptedEngine, llamaEngine, openAiEngine] as const;

export type EngineName = (typeof engineKinds)[number]["name"];

/** Names of the engines in the configuration. */
export const engineNames = engineKinds.map(({ name }) => name) as [EngineName, ...EngineName[]];

/** The engine with that name. Throws if there is none. */
export function engineKind(name: string | undefined): (typeof engineKinds)[number] {
  const kind = engineKinds.find((engine) => engine.name === name);
  if (kind === undefined) throw new Error(`there is no engine '${name}', only ${engineNames.join(", ")}`);
  return kind;
}

/** Whether requests to a kind of server have a field for this option, which is not one of OpenAI's API. */
export function upstreamTakes(kind: UpstreamKind, option: "min_p" | "repetition_penalty"): boolean {
  const { minP, repetitionPenalty } = kindProfiles[kind].dialect;
  return (option === "min_p" ? minP : repetitionPenalty) !== null;
}
