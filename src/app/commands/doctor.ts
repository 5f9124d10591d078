import { resolve } from "node:path";
import { type CliIo, exitCode, print } from "../command-line/cli-io.js";
import { ConfigError, formatProblem } from "../config/problem.js";
import type { Config } from "../config/schema.js";
import { type Check, clockCheck, fail, ok } from "../doctor/check.js";
import { engineCheck } from "../doctor/engine.js";
import { lookAtRedis, openFilesCheck, processorCheck, runtimeCheck, sqliteCheck } from "../doctor/machine.js";
import { listInFolder, lookAtModels } from "../doctor/models.js";
import { certificateCheck, dataFolderCheck, portChecks, settingChecks, stateChecks } from "../doctor/settings.js";
import { type CommandOptions, loadForStart } from "./load-for-command.js";

/** `uis doctor`: checks everything that a start needs. Exit code 1 if a start would fail. */
export async function doctor(io: CliIo, options: CommandOptions): Promise<number> {
  const { config, check } = await loadAndCheck(io, options);
  const checks: Check[] = [
    runtimeCheck(process.versions.node),
    sqliteCheck(),
    await processorCheck(),
    await openFilesCheck(),
    check,
    ...(config === null ? [] : await checksOf({ ...config, data_dir: resolve(io.cwd, config.data_dir) }, io)),
  ];
  print(io, options, checks, ...checks.map(formatCheck));
  return checks.some(({ status }) => status === "fail") ? exitCode.failed : exitCode.done;
}

async function checksOf(config: Config, io: CliIo): Promise<Check[]> {
  const [folder, engine, models, ports, certificate, redis] = await Promise.all([
    dataFolderCheck(config.data_dir),
    engineCheck(config, io.env),
    lookAtModels(config, io.env, () => listInFolder(config, io.env)),
    portChecks(config),
    certificateCheck(config, Date.now()),
    lookAtRedis(config),
  ]);
  return [
    folder,
    engine,
    ...models.checks,
    ...ports,
    certificate,
    ...redis.checks,
    clockCheck(Date.now(), redis.clock ?? models.clock),
    ...stateChecks(config),
    ...settingChecks(config, io.env),
  ];
}

async function loadAndCheck(io: CliIo, options: CommandOptions): Promise<{ config: Config | null; check: Check }> {
  try {
    const { config, file } = await loadForStart(io, options);
    return { config, check: ok("config", file ?? "no file; deproblems") };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const problems = error.problems.map((problem) => formatProblem(problem, error.file));
    return {
      config: null,
      check: fail("config", problems.join("; "), 'correct it; "uis config check" lists every problem'),
    };
  }
}

function formatCheck({ check, status, detail, fix }: Check): string {
  const line = `${status.padEnd(4)}  ${check.padEnd(16)}  ${detail}`;
  return fix === null ? line : `${line}\n${" ".repeat(24)}-> ${fix}`;
}
