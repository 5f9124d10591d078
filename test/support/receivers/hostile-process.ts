import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Trick } from "./tricks.js";

/** One receiver for each trick. */
export interface HostileProcess {
  readonly urls: Readonly<Record<Trick, string>>;
  close(): void;
}

/** The receivers run in a separate process, so that they use no memory or CPU time of the measured one. */
export async function startHostileProcess(): Promise<HostileProcess> {
  const file = fileURLToPath(new URL("./hostile-process-child.ts", import.meta.url));
  const child = fork(file, { execArgv: ["--import", import.meta.resolve("tsx")] });
  const [urls] = (await once(child, "message")) as [HostileProcess["urls"]];
  return { urls, close: () => void child.kill("SIGKILL") };
}
