import { resolve } from "node:path";
import { type Client, Code, ConnectError } from "@connectrpc/connect";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { UpstreamService } from "../../../gen/unified/admin/v1/upstream_service_pb.js";
import { CatalogService } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { UpstreamDefinition } from "../../domain/engine/upstream.js";
import { printableLine } from "../../lib/display-text.js";
import { type CliIo, CommandError, exitCode, print } from "../command-line/cli-io.js";
import { type Paint, paintFor, type Tone } from "../command-line/table.js";
import { ConfigError, formatProblem } from "../config/problem.js";
import type { Config } from "../config/schema.js";
import type { Secrets } from "../config/secrets.js";
import { type Check, fail, ok, warn } from "../doctor/check.js";
import { examineInstallation, examineMachine } from "../doctor/examine.js";
import { runningChecks } from "../doctor/running.js";
import { fallbackChecks } from "../doctor/settings.js";
import { storedUpstreamChecks, upstreamChecks } from "../doctor/upstreams.js";
import { readServiceFile } from "../process/data-folder.js";
import { type CommandOptions, loadForStart } from "./load-for-command.js";
import { callAsAdministrator, pagesOf } from "./service-client.js";

/** `uis doctor`: checks everything that a start needs. Exit code 1 if a start would fail. */
export async function doctor(io: CliIo, options: CommandOptions): Promise<number> {
  const { loaded, check } = await loadAndCheck(io, options);
  const checks = [...(await examineMachine()), check];
  if (loaded !== null) {
    const config = { ...loaded.config, data_dir: resolve(io.cwd, loaded.config.data_dir) };
    const [installation, configured] = await Promise.all([
      examineInstallation(config, io.env, null),
      upstreamChecks(config, loaded.upstreams),
    ]);
    // Afterwards, because it uses Redis, whose latency was measured.
    checks.push(...installation, ...configured, ...(await checkStored(io, options, config, loaded.secrets)));
    checks.push(...(await checkRunning(io, options, config, checks)));
  }
  const paint = paintFor(io.stdout, io.env);
  print(io, options, checks, ...checks.map((one) => formatCheck(one, paint)));
  return checks.some(({ status }) => status === "fail") ? exitCode.failed : exitCode.done;
}

/**
 * Checks the stored upstreams, and the fallbacks, which may be models of such an upstream. A running service does it, because
 * the data folder is locked; otherwise this process does it.
 */
async function checkStored(
  io: CliIo,
  options: CommandOptions,
  config: Config,
  { masterKey }: Secrets,
): Promise<readonly Check[]> {
  const withoutService = fallbackChecks(config, null);
  if (!(await hasService(options, config))) {
    return [...(await storedUpstreamChecks(config, masterKey)), ...withoutService];
  }
  try {
    const upstreams = await callAsAdministrator(io, options, UpstreamService, checksByService);
    const served = await callAsAdministrator(io, options, CatalogService, servedIds);
    return [...upstreams, ...fallbackChecks(config, served)];
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return [
      warn("upstream", `stored upstreams are not checked: ${error.message}`, "use the data folder of the service"),
      ...withoutService,
    ];
  }
}

/** Whether a service is named with `--url`, or uses the data folder. */
async function hasService({ url }: CommandOptions, { data_dir: dataDir }: Config): Promise<boolean> {
  return url !== undefined || (await readServiceFile(dataDir)) !== null;
}

/** The findings of the service that is named or uses the data folder; none if no service runs. */
async function checkRunning(
  io: CliIo,
  options: CommandOptions,
  config: Config,
  known: readonly Check[],
): Promise<readonly Check[]> {
  if (!(await hasService(options, config))) return [];
  try {
    const { system } = await callAsAdministrator(io, options, SystemService, (client) => client.getSystem({}));
    return system === undefined ? [] : runningChecks(system, known);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return [
      warn(
        "service",
        `the findings of the running service are missing: ${error.message}`,
        "use the data folder of the service",
      ),
    ];
  }
}

async function servedIds(client: Client<typeof CatalogService>): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  for await (const page of pagesOf((pageToken) => client.listModels({ pageToken }))) {
    for (const { id } of page.models) ids.add(id);
  }
  return ids;
}

async function checksByService(client: Client<typeof UpstreamService>): Promise<readonly Check[]> {
  const { upstreams } = await client.listUpstreams({});
  const checks: Check[] = [];
  for (const { name, source } of upstreams) if (source === "stored") checks.push(await checkByService(client, name));
  return checks;
}

async function checkByService(client: Client<typeof UpstreamService>, name: string): Promise<Check> {
  try {
    const { usable, problem, fix, url, models, latencyMs } = await client.checkUpstream({ name });
    const count = models.length === 1 ? "1 model" : `${models.length} models`;
    if (usable) return ok("upstream", `${name}: ${url} lists ${count}, in ${latencyMs} ms`);
    return warn("upstream", printableLine(`${name}: ${problem}`), fix);
  } catch (error) {
    const { code, rawMessage } = ConnectError.from(error);
    // The service cannot decrypt its secrets, or runs too many checks.
    if (code !== Code.Aborted) throw error;
    return warn("upstream", `${name}: ${rawMessage}`, "uis upstreams list shows its state");
  }
}

interface Loaded {
  readonly config: Config;
  readonly upstreams: readonly UpstreamDefinition[];
  readonly secrets: Secrets;
}

async function loadAndCheck(io: CliIo, options: CommandOptions): Promise<{ loaded: Loaded | null; check: Check }> {
  try {
    const loaded = await loadForStart(io, options);
    return { loaded, check: ok("config", loaded.file ?? "no file; defaults") };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const problems = error.problems.map((problem) => formatProblem(problem, error.file)).join("; ");
    return { loaded: null, check: fail("config", problems, 'correct it; "uis config check" lists every problem') };
  }
}

const tones: Readonly<Record<Check["status"], Tone>> = { ok: "good", warn: "warning", fail: "bad" };

function formatCheck({ check, status, detail, fix }: Check, paint: Paint): string {
  const line = `${paint(tones[status], status.padEnd(4))}  ${check.padEnd(16)}  ${detail}`;
  return fix === null ? line : `${line}\n${" ".repeat(24)}-> ${fix}`;
}
