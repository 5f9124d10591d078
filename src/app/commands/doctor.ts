import { resolve } from "node:path";
import type { UpstreamDefinition } from "../../domain/engine/upstream.js";
import { type CliIo, exitCode, print } from "../command-line/cli-io.js";
import { type Paint, paintFor, type Tone } from "../command-line/table.js";
import { ConfigError, formatProblem } from "../config/problem.js";
import type { Config } from "../config/schema.js";
import { type Check, fail, ok } from "../doctor/check.js";
import { examineInstallation, examineMachine } from "../doctor/examine.js";
import { upstreamChecks } from "../doctor/upstreams.js";
import { type CommandOptions, loadForStart } from "./load-for-command.js";

/** `uis doctor`: checks everything that a start needs. Exit code 1 if a start would fail. */
export async function doctor(io: CliIo, options: CommandOptions): Promise<number> {
  const { loaded, check } = await loadAndCheck(io, options);
  const checks = [...(await examineMachine()), check];
  if (loaded !== null) {
    const { config, upstreams } = loaded;
    const dataDir = resolve(io.cwd, config.data_dir);
    const ofUpstreams = upstreamChecks(config, upstreams);
    checks.push(...(await examineInstallation({ ...config, data_dir: dataDir }, io.env, null)), ...(await ofUpstreams));
  }
  const paint = paintFor(io.stdout, io.env);
  print(io, options, checks, ...checks.map((one) => formatCheck(one, paint)));
  return checks.some(({ status }) => status === "fail") ? exitCode.failed : exitCode.done;
}

interface Loaded {
  readonly config: Config;
  readonly upstreams: readonly UpstreamDefinition[];
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
