import { spawnSync } from "node:child_process";

/** Comes with Debian's package `prometheus`; CI has it. */
export const hasPromtool = spawnSync("promtool", ["--version"]).status === 0;

/** Runs it. `output` is all that it wrote; empty when a check has nothing to say. */
export function promtool(args: readonly string[], input = ""): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync("promtool", args, { input, encoding: "utf8" });
  return { status, output: `${stdout}${stderr}` };
}
