import type { ModelStore } from "../../domain/catalog/model-store.js";
import type { State } from "../../domain/service/state.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { type Check, clockCheck } from "./check.js";
import { coreChecks } from "./cores.js";
import { engineCheck } from "./engine.js";
import { graphicsCheck } from "./graphics.js";
import {
  examineRedis,
  examineState,
  examineStateFile,
  openFilesCheck,
  processorCheck,
  runtimeCheck,
  sqliteCheck,
} from "./machine.js";
import { examineModels, listInFolder } from "./models.js";
import {
  certificateCheck,
  dataFilesCheck,
  dataFolderCheck,
  opsTokenChecks,
  portChecks,
  settingChecks,
} from "./settings.js";

interface RunningParts {
  readonly state: Pick<State, "kind" | "health" | "now">;
  readonly models: Pick<ModelStore, "list">;
  /** Its abort ends slow checks. */
  readonly signal: AbortSignal;
}

/** Checks of `uis doctor` that need no configuration. */
export async function examineMachine(): Promise<readonly Check[]> {
  return [runtimeCheck(process.versions.node), sqliteCheck(), await processorCheck(), openFilesCheck()];
}

/**
 * Checks of `uis doctor` that need the configuration. `config.data_dir` is absolute. `running`: the parts of a running service,
 * which the checks use in place of files; its ports are not checked.
 */
export async function examineInstallation(
  config: Config,
  env: Variables,
  running: RunningParts | null,
): Promise<readonly Check[]> {
  const [folder, engine, gpu, models, ports, certificate, opsToken, cores, state] = await Promise.all([
    dataFolderCheck(config.data_dir),
    engineCheck(config, env, running?.signal),
    graphicsCheck(config, env),
    examineModels(config, env, () => running?.models.list() ?? listInFolder(config, env)),
    running === null ? portChecks(config) : [],
    certificateCheck(config, Date.now()),
    opsTokenChecks(config),
    coreChecks(config),
    running === null ? examineStopped(config) : examineState(running.state),
  ]);
  const clock = clockCheck(Date.now(), state.clock ?? models.clock);
  const settings = settingChecks(config, env);
  return [
    folder,
    engine,
    gpu,
    ...models.checks,
    ...ports,
    certificate,
    ...opsToken,
    ...cores,
    ...state.checks,
    clock,
    ...settings,
  ];
}

/** Checks of the data folder and the store while no service runs. */
async function examineStopped(config: Config): Promise<Awaited<ReturnType<typeof examineRedis>>> {
  const files = await dataFilesCheck(config.data_dir);
  if (files.status === "fail") return { checks: [files], clock: null };
  const redis = await examineRedis(config);
  return { ...redis, checks: [files, ...examineStateFile(config), ...redis.checks] };
}
