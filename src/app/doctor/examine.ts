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
  /** Aborts slow checks. */
  readonly signal: AbortSignal;
}

/** Checks of `uis doctor` that need no configuration. */
export async function examineMachine(): Promise<readonly Check[]> {
  return [runtimeCheck(process.versions.node), sqliteCheck(), await processorCheck(), openFilesCheck()];
}

/**
 * The other checks of `uis doctor`. `config.data_dir` absolute. In a running service (not null) they use its parts and
 * leave out its ports.
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

/** The store without a running service, and the files beside it. */
async function examineStopped(config: Config): Promise<Awaited<ReturnType<typeof examineRedis>>> {
  const files = await dataFilesCheck(config.data_dir);
  if (files.status === "fail") return { checks: [files], clock: null };
  const redis = await examineRedis(config);
  return { ...redis, checks: [files, ...examineStateFile(config), ...redis.checks] };
}
