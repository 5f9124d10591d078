import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";

function analyze(args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync("systemd-analyze", args, { encoding: "utf8" });
  return { status, output: stdout + stderr };
}

/** The units, with the names under which systemd runs them. */
const units = [
  ["unified-inference.service", "unified-inference.service"],
  ["unified-inference@.service", "unified-inference@1.service"],
] as const;

// The program systemd-analyze exists only on Linux with systemd.
describe.skipIf(analyze(["--version"]).status !== 0)("systemd", () => {
  it.each(units)("accepts %s, and rates its exposure as low", (name, instance) => {
    const folder = mkdtempSync(join(tmpdir(), "uis-systemd-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, instance);
    const unit = readFileSync(`deploy/systemd/${name}`, "utf8");
    // The program is not installed on this machine.
    writeFileSync(file, unit.replace("/opt/unified-inference/node_modules/.bin/uis", process.execPath));
    expect(analyze(["verify", file])).toEqual({ status: 0, output: "" });
    const { output } = analyze(["security", "--offline=true", file]);
    expect(Number(/exposure level for \S+: ([\d.]+)/.exec(output)?.[1])).toBeLessThan(2.5);
  });
});
