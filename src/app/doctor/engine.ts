import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gpuSupport } from "../../engines/llama/llama-engine.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { type Check, fail, ok } from "./check.js";

const loadTimeoutMs = 10_000;
const outputBytesMax = 65_536;

/**
 * Native code may end its process, so it is loaded in another one, whose working folder says which build is found. The
 * binding starts one more with the same options of Node, where `--eval` would make this program run again.
 */
const argumentsFor = (gpu: string): readonly string[] => [
  "--input-type=module",
  "--eval",
  `
process.execArgv = [];
const { getLlama, getModuleVersion } = await import("node-llama-cpp");
await getLlama({ build: "never", gpu: ${gpu}, skipDownload: true, progressLogs: false, logger() {} });
console.log(await getModuleVersion());
process.exit();
`,
];

/** Whether the binary of the embedded engine loads on this machine, as its own processes load it. The signal ends the look. */
export async function engineCheck(
  { engine }: Pick<Config, "engine">,
  env: Variables,
  signal?: AbortSignal,
): Promise<Check> {
  const { module_dir: moduleDir } = engine;
  if (moduleDir === null) {
    const ownFolder = dirname(fileURLToPath(import.meta.url));
    return loadCheck(
      { folder: ownFolder, gpu: gpuOf(null), fix: "install again without --omit=optional" },
      env,
      signal,
    );
  }
  const fix = "install node-llama-cpp there, or leave out engine.module_dir";
  if ((await stat(join(moduleDir, "node_modules", "node-llama-cpp")).catch(() => null)) === null) {
    return fail("engine", `there is no node-llama-cpp in ${moduleDir}`, fix);
  }
  return loadCheck({ folder: moduleDir, gpu: gpuOf(moduleDir), fix }, env, signal);
}

/** As the engine loads it, as source text. */
const gpuOf = (moduleDir: string | null): string => JSON.stringify(gpuSupport(process, moduleDir));

interface Build {
  /** Where it is looked for, as a module in that folder would find it. */
  readonly folder: string;
  readonly gpu: string;
  /** What to do when it does not load. */
  readonly fix: string;
}

async function loadCheck({ folder, gpu, fix }: Build, env: Variables, signal?: AbortSignal): Promise<Check> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [...argumentsFor(gpu)], {
      cwd: folder,
      env: { PATH: env["PATH"], HOME: env["HOME"], LD_LIBRARY_PATH: env["LD_LIBRARY_PATH"] },
      timeout: loadTimeoutMs,
      killSignal: "SIGKILL",
      maxBuffer: outputBytesMax,
      ...(signal === undefined ? {} : { signal }),
    });
    return ok("engine", `node-llama-cpp ${stdout.trim()} loads`);
  } catch (error) {
    return fail("engine", `node-llama-cpp cannot be loaded: ${reasonOf(error)}`, fix);
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ("killed" in error && error.killed === true) return `no answer within ${loadTimeoutMs / 1_000} s`;
  const said = "stderr" in error ? String(error.stderr) : "";
  return /^\w*Error.*$/m.exec(said)?.[0] ?? error.message.split("\n", 1)[0] ?? "";
}
