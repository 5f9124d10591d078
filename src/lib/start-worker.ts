import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";

/**
 * Starts a thread from a file in the folder of `base` (its `import.meta.url`): the compiled `worker.js`, or in the repository
 * `worker.ts`. A new thread inherits neither vitest's nor tsx's loader (on Node 20 not even with `--import`), so a line
 * of JavaScript loads the file through tsx there.
 */
export function startWorker(base: string, workerData: unknown): Worker {
  const compiled = new URL("./worker.js", base);
  if (existsSync(fileURLToPath(compiled))) return new Worker(compiled, { workerData });
  const source = new URL("./worker.ts", base).href;
  const tsx = import.meta.resolve("tsx/esm/api");
  const script = `import { tsImport } from "${tsx}"; await tsImport("${source}", "${source}");`;
  return new Worker(new URL(`data:text/javascript,${encodeURIComponent(script)}`), { workerData, execArgv: [] });
}
