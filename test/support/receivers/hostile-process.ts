import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Trick } from "./tricks.js";

/** One receiver for each trick. */
export interface HostileProcess {
  readonly urls: Readonly<Record<Trick, string>>;
  close(): void;
}

/** In a process of their own, so that what they send takes no memory and no time of the one that looks on. */
export async function startHostileProcess(): Promise<HostileProcess> {
  const file = fileURLToPath(new URL("./hostile-process-child.ts", import.meta.url));
  const child = fork(file, { execArgv: ["--import", import.meta.resolve("tsx")] });
  const [urls] = (await once(child, "message")) as [HostileProcess["urls"]];
  return { urls, close: () => void child.kill("SIGKILL") };
}
