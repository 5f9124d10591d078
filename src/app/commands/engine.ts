import { resolve } from "node:path";
import { byteText } from "../../lib/display-text.js";
import { NpmError } from "../../lib/npm-client.js";
import { TarError } from "../../lib/tar.js";
import { type CliIo, CommandError, print } from "../command-line/cli-io.js";
import { type Cell, numeric, tableLines } from "../command-line/table.js";
import { untilInterrupt } from "../command-line/until-interrupt.js";
import { type BuildRow, type EngineSettings, listBuilds } from "../engines/build-list.js";
import { findGraphics, thisMachine } from "../engines/graphics.js";
import { InstallError, installBuild } from "../engines/install-build.js";
import { type BuildName, buildsFor } from "../engines/registry.js";
import { type CommandOptions, loadForCommand } from "./load-for-command.js";

interface Installation {
  readonly engine: EngineSettings;
  /** Absolute path. */
  readonly dataDir: string;
}

async function installationOf(io: CliIo, options: CommandOptions): Promise<Installation> {
  const { config } = await loadForCommand(io, options);
  return { engine: config.engine, dataDir: resolve(io.cwd, config.data_dir) };
}

async function rowsOf(io: CliIo, { engine, dataDir }: Installation): Promise<readonly BuildRow[]> {
  return await listBuilds(engine, dataDir, await findGraphics(thisMachine(io.env)));
}

/** `uis engine list`: the builds of the embedded engine for this machine. */
export async function listEngine(io: CliIo, options: CommandOptions): Promise<void> {
  const rows = await rowsOf(io, await installationOf(io, options));
  const columns = ["NAME", "PLATFORM", "INSTALLED", "IN USE", numeric("SIZE"), "NOTE"];
  const yesNo = (is: boolean): Cell => (is ? ["good", "yes"] : "no");
  const cells = rows.map(({ name, platform, installed, in_use: inUse, bytes, note }) => {
    return [name, platform, yesNo(installed), yesNo(inUse), bytes === null ? "-" : byteText(bytes), note ?? ""];
  });
  print(io, options, rows, ...tableLines(io, columns, cells));
}

/** `uis engine install`: fetches a build with npm into the data folder. A service uses it after its next start. */
export async function installEngine(io: CliIo, name: BuildName, options: CommandOptions): Promise<void> {
  const installation = await installationOf(io, options);
  const rowOf = async () => (await rowsOf(io, installation)).find((row) => row.name === name);
  const isNew = (await rowOf())?.installed !== true;
  if (isNew) await fetchBuild(io, name, installation);
  const row = await rowOf();
  const state = isNew ? `${name} is installed` : `${name} was installed already`;
  print(io, options, row, `${state}; ${nextStep(row, installation.engine, isNew)}`);
}

async function fetchBuild(io: CliIo, name: BuildName, { dataDir }: Installation): Promise<void> {
  const build = buildsFor(process).find((one) => one.name === name);
  if (build === undefined) throw new Error(`there is no build ${name}`);
  const onStep = (step: string): unknown => io.stderr.write(`${step} …\n`);
  const { env, cwd } = io;
  const install = (signal: AbortSignal) => installBuild({ build, dataDir, env, cwd, signal, onStep });
  await untilInterrupt(cancelledText, install).catch(explain);
}

function nextStep(row: BuildRow | undefined, { gpu }: EngineSettings, isNew: boolean): string {
  if (row?.in_use) return isNew ? "restart the service to use it, then run: uis doctor" : "it is in use";
  if (gpu === "off" && row?.name !== "cpu") return "it is not used, because engine.gpu is off";
  return row?.note ?? "it is not in use";
}

const cancelledText = "cancelled: complete downloads are kept; the same command continues with the rest";

function explain(error: unknown): never {
  const isExpected = error instanceof InstallError || error instanceof NpmError || error instanceof TarError;
  throw isExpected ? new CommandError(error.message, { cause: error }) : error;
}
