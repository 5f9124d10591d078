import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { exitCode } from "../../../src/app/command-line/cli-io.js";
import { defaultLimits } from "../../../src/contract/limits.js";
import { faultOf } from "../../support/command-line.js";

const settings = readFileSync("docs/config.md", "utf8");
const program = "/opt/unified-inference/node_modules/.bin/uis";
const names = ["unified-inference.service", "unified-inference@.service"] as const;
const read = (name: string) => readFileSync(`deploy/systemd/${name}`, "utf8");
const isKnown = (variable: string) => variable === "NODE_ENV" || settings.includes(variable.replace(/_FILE$/, ""));

describe.each(names)("deploy/systemd/%s", (name) => {
  const unit = read(name);

  /** The values of an option, also of one that is commented out. */
  function values(option: string): readonly string[] {
    return [...unit.matchAll(new RegExp(`^#?${option}=(.*)$`, "gm"))].map(([, value]) => String(value));
  }

  it("starts the program with options that it accepts", async () => {
    const [command = ""] = values("ExecStart");
    const [path, ...words] = command.split(" ");
    expect(path).toBe(program);
    expect(await faultOf(words)).toBeNull();
  });

  it("sets only variables that exist, and keeps the data in the folder that it may write", () => {
    const pairs = values("Environment").flatMap((value) => value.split(" ").map((pair) => pair.split("=")));
    expect(pairs.filter(([variable = ""]) => !isKnown(variable))).toEqual([]);
    const [folder] = values("StateDirectory");
    expect(Object.fromEntries(pairs)).toMatchObject({ UIS_DATA_DIR: `/var/lib/${folder}` });
  });

  it("gives requests time to finish before it kills the service, and does not restart after a configuration error", () => {
    const delayMs = 5_000;
    expect(Number(values("TimeoutStopSec")[0]) * 1_000).toBeGreaterThan(defaultLimits.drainMs + delayMs);
    expect(values("RestartPreventExitStatus")).toEqual([String(exitCode.wrongUsage)]);
    expect(values("ExecReload")[0]).toContain("-HUP");
  });
});

describe("deploy/systemd/unified-inference@.service", () => {
  const unit = read("unified-inference@.service");

  it("gives each instance its own data folder and ports, and all of them one Redis and one master key", () => {
    expect(unit).toMatch(/^StateDirectory=unified-inference-%i$/m);
    expect(unit).toMatch(/^EnvironmentFile=\/etc\/unified-inference\/%i\.env$/m);
    expect(unit).toMatch(/^Environment=UIS_MASTER_KEY_FILE=%d\/master\.key REDIS_URL_FILE=%d\/redis\.url$/m);
    const ports = [...unit.matchAll(/^# {3}printf '(.*)' > \S+\/(\d)\.env$/gm)].flatMap(([, text = ""]) =>
      text.split("\\n").flatMap((pair) => (pair === "" ? [] : [pair.split("=")])),
    );
    expect(ports.map(([variable]) => variable)).toEqual([...instanceVariables, ...instanceVariables]);
    expect(new Set(ports.map(([, port]) => port)).size).toBe(ports.length);
    expect(instanceVariables.filter((variable) => !isKnown(variable))).toEqual([]);
  });

  it("is restricted like the unit of one instance", () => {
    const options = (name: string) =>
      read(name)
        .split("\n")
        .filter((line) => /^(Protect|Private|Restrict|System|No|Cap|Lock|Remove|Kill|UMask|Limit)/.test(line));
    expect(options("unified-inference@.service")).toEqual(options("unified-inference.service"));
  });
});

const instanceVariables = ["PORT", "UIS_GRPC_PORT", "UIS_OPS_PORT"];
