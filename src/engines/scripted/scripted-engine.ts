import { version } from "../../contract/version.js";
import type { Clock, IdSource } from "../../domain/call/ports.js";
import type { Engine } from "../../domain/engine/engine.js";
import { ScriptedModel } from "./scripted-model.js";
import type { ScriptedOptions } from "./scripted-options.js";

/** The deterministic engine of tests, demonstrations and benchmarks. Its models need no loading. */
export function createScriptedEngine(deps: { readonly clock: Clock; readonly ids: IdSource }): Engine {
  return {
    kind: "scripted",
    probe: async () => ({ up: true, version }),
    load: async (spec) => new ScriptedModel(deps, spec, spec.options as ScriptedOptions),
  };
}
