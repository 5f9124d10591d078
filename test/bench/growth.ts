/**
 * Costs that may grow: the processor time of a request in services with many webhook endpoints, thresholds, keys, markers of
 * settled requests and models; requests and answers of growing size; the latency with thousands of connections; and whether
 * retention and the deliveries of one endpoint keep up with the highest rates. Each with state in the file, as with
 * `npm start`, and in memory. Prints a table; each line has its aim and whether it was met. Exits with 1 when one was missed.
 *
 *   npm run bench -- growth [--only keys,models] [--state file] [--seconds 3 --repeats 5 --minutes 10 --backlog 60]
 */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { version } from "../../src/contract/version.js";
import { temporaryFolder } from "./cleanup.js";
import { endpointCosts, keyCosts, markerCosts, modelCosts, thresholdCosts } from "./growth-costs.js";
import { connectionLatency, endpointBacklog, type RateOptions, retentionBeside } from "./growth-rates.js";
import { type Line, type StateName, stateNames } from "./growth-service.js";
import { sizeCosts } from "./growth-sizes.js";

interface Part {
  readonly measure: (options: RateOptions) => Promise<Line[]>;
  /** Absent: all. State in memory keeps no markers. */
  readonly states?: readonly StateName[];
}

const parts: ReadonlyMap<string, Part> = new Map<string, Part>([
  ["endpoints", { measure: endpointCosts }],
  ["thresholds", { measure: thresholdCosts }],
  ["keys", { measure: keyCosts }],
  ["markers", { measure: markerCosts, states: ["file"] }],
  ["models", { measure: modelCosts }],
  ["sizes", { measure: sizeCosts }],
  ["connections", { measure: connectionLatency }],
  ["retention", { measure: retentionBeside, states: ["file"] }],
  ["backlog", { measure: endpointBacklog }],
]);

const { values } = parseArgs({
  options: {
    /** Parts to measure, with commas between them; default: all. */
    only: { type: "string", default: [...parts.keys()].join() },
    /** Default: both. */
    state: { type: "string", default: stateNames.join() },
    /** Duration of a turn. */
    seconds: { type: "string", default: "3" },
    repeats: { type: "string", default: "5" },
    /** Minutes of load while expired records are deleted. */
    minutes: { type: "string", default: "10" },
    /** Seconds of load while deliveries go to one endpoint. */
    backlog: { type: "string", default: "60" },
    /** Multiplies the numbers of keys, markers, models and connections. */
    scale: { type: "string", default: "1" },
  },
});

function chosen<T extends string>(list: string, all: Iterable<T>, name: string): T[] {
  const known = [...all];
  return list.split(",").map((each) => {
    const found = known.find((one) => one === each);
    if (found === undefined) throw new Error(`--${name} ${each}: it is one of ${known.join(", ")}`);
    return found;
  });
}

if (!existsSync("dist/app/cli.js")) throw new Error("there is no build: run `npm run build` first");
const names = chosen(values.only, parts.keys(), "only");
const states = chosen(values.state, stateNames, "state");
const folder = temporaryFolder("growth");
const lines: Line[] = [];
for (const name of names) {
  const part = parts.get(name);
  for (const state of states) {
    if (part === undefined || part.states?.includes(state) === false) continue;
    process.stderr.write(`measuring ${name}, state in ${state === "file" ? "the file" : "memory"}\n`);
    const measured = await part.measure({
      folder,
      state,
      seconds: Number(values.seconds),
      repeats: Number(values.repeats),
      scale: Number(values.scale),
      minutes: Number(values.minutes),
      backlogSeconds: Number(values.backlog),
    });
    lines.push(...measured);
    for (const line of measured) process.stderr.write(`${line.what}: ${line.measured}\n`);
  }
}

const rows = lines.map(({ what, state, measured, aim, isHeld }) => [
  what,
  state,
  measured,
  aim,
  isHeld ? "held" : "missed",
]);
const table = [["what grows", "state", "measured", "aim", ""], Array.from({ length: 5 }, () => "---"), ...rows];
process.stdout.write(`${headingOf()}\n\n${table.map((row) => `| ${row.join(" | ")} |`).join("\n")}\n`);
if (lines.some(({ isHeld }) => !isHeld)) process.exitCode = 1;

/** The version, the machine and the day. */
function headingOf(): string {
  const [cpu] = cpus();
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  const machine = `${cpus().length} x ${cpu?.model.trim() ?? "unknown processor"}, ${memory}, Linux ${release()}`;
  return `## Growth: version ${version} (${commitOf()}), Node ${process.version}, ${machine}, ${new Date().toISOString().slice(0, 10)}`;
}

function commitOf(): string {
  try {
    return execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  } catch {
    return "no commit";
  }
}
