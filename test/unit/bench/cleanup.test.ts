import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";

const cleanup = new URL("../../bench/cleanup.ts", import.meta.url).href;

/** A benchmark with a folder and a child process that has a child of its own; `then` runs once they exist. */
function startBenchmark(then: string): ChildProcess {
  const program = `
    import { spawn } from "node:child_process";
    import { writeFileSync } from "node:fs";
    import { killAtExit, temporaryFolder } from ${JSON.stringify(cleanup)};
    const folder = temporaryFolder("cleanup");
    writeFileSync(folder + "/file", "");
    const child = spawn("sh", ["-c", "sleep 600 & echo $!; wait"], { stdio: ["ignore", "pipe", "ignore"] });
    killAtExit(child).stdout.once("data", (pid) => {
      console.log(JSON.stringify({ folder, pids: [child.pid, Number(pid)] }));
      ${then}
    });
  `;
  const args = ["--import", import.meta.resolve("tsx"), "--input-type=module", "--eval", program];
  return spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
}

/** Whether the process runs; one that has ended stays listed until its parent notices. */
function runs(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

// Benchmarks need Linux.
it.skipIf(process.platform !== "linux").each([
  ["SIGINT", 130, ""],
  ["SIGTERM", 143, ""],
  ["SIGHUP", 129, ""],
  ["an error", 1, 'throw new Error("a gate was missed");'],
  ["its last line", 0, "child.stdout.destroy(); child.unref();"],
])("a benchmark leaves no folder and no process after %s", async (end, code, then) => {
  const benchmark = startBenchmark(then);
  const exited = once(benchmark, "exit");
  const [line] = await once(createInterface(benchmark.stdout as NodeJS.ReadableStream), "line");
  const { folder, pids } = JSON.parse(String(line)) as { folder: string; pids: number[] };
  if (end.startsWith("SIG")) {
    expect([existsSync(folder), ...pids.map(runs)]).toEqual([true, true, true]);
    benchmark.kill(end as NodeJS.Signals);
  }
  expect((await exited)[0]).toBe(code);
  expect(existsSync(folder)).toBe(false);
  await eventually(() => !pids.some(runs), "the end of the child and its child");
});
