import type { ModelStore } from "../../domain/catalog/model-store.js";
import type { State } from "../../domain/service/state.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { type Check, clockCheck, ok } from "./check.js";
import { engineCheck } from "./engine.js";
import { lookAtState, openFilesCheck, processorCheck, runtimeCheck, sqliteCheck } from "./machine.js";
import { lookAtModels } from "./models.js";
import { certificateCheck, dataFolderCheck, settingChecks, stateChecks } from "./settings.js";

interface RunningParts {
  /** As the service was started with it; `data_dir` absolute. */
  readonly config: Config;
  readonly environment: Variables;
  readonly state: Pick<State, "kind" | "health" | "now">;
  readonly models: Pick<ModelStore, "list">;
  /** Ends what takes long. */
  readonly signal: AbortSignal;
}

/** The checks of `uis doctor` that make sense in a service that runs: it has its ports, and its configuration was read. */
export async function examineService(parts: RunningParts): Promise<readonly Check[]> {
  const { config, environment, state, models, signal } = parts;
  const [redis, found] = await Promise.all([
    lookAtState(state),
    lookAtModels(config, environment, () => models.list()),
  ]);
  return [
    runtimeCheck(process.versions.node),
    sqliteCheck(),
    await processorCheck(),
    await openFilesCheck(),
    ok("config", "this service runs with it"),
    await dataFolderCheck(config.data_dir),
    await engineCheck(config, environment, signal),
    ...found.checks,
    await certificateCheck(config, Date.now()),
    ...redis.checks,
    clockCheck(Date.now(), redis.clock ?? found.clock),
    ...stateChecks(config),
    ...settingChecks(config, environment),
  ];
}
