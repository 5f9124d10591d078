import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { exitCode } from "../../../src/app/command-line/cli-io.js";
import { defaultLimits } from "../../../src/contract/limits.js";
import { faultOf } from "../../support/command-line.js";

const name = "unified-inference.service";
const unit = readFileSync(`deploy/systemd/${name}`, "utf8");
const settings = readFileSync("docs/config.md", "utf8");
const program = "/opt/unified-inference/node_modules/.bin/uis";

/** The values of an option, also of one that is commented out. */
function values(option: string): readonly string[] {
  return [...unit.matchAll(new RegExp(`^#?${option}=(.*)$`, "gm"))].map(([, value]) => String(value));
}

describe(`deploy/systemd/${name}`, () => {
  it("starts the program with options that it accepts", async () => {
    const [command = ""] = values("ExecStart");
    const [path, ...words] = command.split(" ");
    expect(path).toBe(program);
    expect(await faultOf(words)).toBeNull();
  });

  it("sets only variables that exist, and keeps the data in the folder that it may write", () => {
    const pairs = values("Environment").flatMap((value) => value.split(" ").map((pair) => pair.split("=")));
    const known = (variable: string) => variable === "NODE_ENV" || settings.includes(variable.replace(/_FILE$/, ""));
    expect(pairs.filter(([variable = ""]) => !known(variable))).toEqual([]);
    const [folder] = values("StateDirectory");
    expect(Object.fromEntries(pairs)).toMatchObject({ UIS_DATA_DIR: `/var/lib/${folder}` });
  });

  it("waits for the drain before it kills, and does not restart after a wrong configuration", () => {
    const delayMs = 5_000;
    expect(Number(values("TimeoutStopSec")[0]) * 1_000).toBeGreaterThan(defaultLimits.drainMs + delayMs);
    expect(values("RestartPreventExitStatus")).toEqual([String(exitCode.wrongUsage)]);
    expect(values("ExecReload")[0]).toContain("-HUP");
  });
});
