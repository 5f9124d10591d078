import { spawn } from "node:child_process";
import { once, setMaxListeners } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { hostileNeighbours } from "./hostile-neighbours.js";
import type { Target } from "./scene.js";

/**
 * Runs a hostile neighbour in a separate process, at a lower priority than polite clients, so that it takes processor time of
 * the service and not of them. Returns a function that ends it.
 */
export function startHostile(name: string, target: Target): () => Promise<void> {
  const program = [process.execPath, "--import", "tsx", fileURLToPath(import.meta.url)];
  // The child inherits the processors of this process.
  const child = spawn("nice", ["-n", "10", ...program, name, JSON.stringify(target)], {
    stdio: ["pipe", "inherit", "inherit"],
  });
  const exited = once(child, "exit");
  return async () => {
    child.stdin.end();
    const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
    await exited;
    clearTimeout(timer);
  };
}

/** Runs in the separate process. Ends when its input ends, also when its parent was killed. */
async function main(name: string, target: string): Promise<void> {
  const ending = new AbortController();
  // Each request of a neighbour adds a listener to the signal.
  setMaxListeners(0, ending.signal);
  process.stdin.resume().once("end", () => ending.abort());
  const neighbour = hostileNeighbours.find((one) => one.name === name);
  await neighbour?.run(JSON.parse(target) as Target, ending.signal);
  process.exit(neighbour === undefined ? 1 : 0);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv[2] ?? "", process.argv[3] ?? "");
