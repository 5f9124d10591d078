/**
 * Hostile neighbours: latency of polite clients (chats at a steady rate, streams, a receiver of webhooks) while another
 * client floods the service, for each kind of flood in turn, compared with the polite clients alone. The service has a core
 * of its own and the state of `npm start`, with a million rows of usage and 100,000 API keys. Prints a table; the exit code
 * is 1 when a row exceeds its bounds. Runs without a network where this user may create a network namespace (unshare): the
 * system's name servers then never answer. Needs Linux, two cores and a build (`npm run build`).
 *
 *   npm run bench -- neighbours [--seconds 20 --rest 30 --rows 1000000 --keys 100000 --only backups]
 */
import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { version } from "../../src/contract/version.js";
import { type HostileNeighbour, hostileNeighbours } from "../support/neighbours/hostile-neighbours.js";
import { startHostile } from "../support/neighbours/hostile-process.js";
import { deliveryMaxMs, PoliteClients, type PoliteFigures } from "../support/neighbours/polite-clients.js";
import { names, openScene, type Scene } from "../support/neighbours/scene.js";
import { temporaryFolder } from "./cleanup.js";
import { childPids, rssBytes } from "./process-figures.js";

const serverCore = 0;
const clientCore = 1;
const mebibyte = 1_048_576;
/** Bounds of latency for polite clients, and of the service's memory. */
const bounds = { timesQuiet: 3, moreThanQuietMs: 250, deliveryMs: 1_000, growthMb: 300 } as const;
/** Memory counts as released when it is at most this much above the level before the flood. */
const restMb = 64;
const sampleMs = 200;
/** V8 continues to compile for about three seconds. */
const warmUpMs = 5_000;
const isolated = "UIS_BENCH_ISOLATED";

const { values } = parseArgs({
  options: {
    /** Duration of each neighbour. */
    seconds: { type: "string", default: "20" },
    /** Longest wait for the release of memory after each neighbour. */
    rest: { type: "string", default: "30" },
    /** Rows of usage in the state. */
    rows: { type: "string", default: "1000000" },
    /** API keys in the state. */
    keys: { type: "string", default: "100000" },
    /** Parts of the names of the neighbours that run, separated by commas. */
    only: { type: "string", default: "" },
  },
});

interface Row {
  readonly neighbour: string;
  readonly quiet: PoliteFigures;
  readonly beside: PoliteFigures;
  readonly growthMb: number;
  readonly afterMb: number;
}

const isNear = (ms: number, quietMs: number): boolean =>
  ms <= bounds.timesQuiet * quietMs && ms <= quietMs + bounds.moreThanQuietMs;

/** The bounds that a row exceeds. */
function missedBounds({ quiet, beside, growthMb, afterMb }: Row): readonly string[] {
  const missed = {
    failed: beside.failed > 0,
    chat: !isNear(beside.chatP99, quiet.chatP99),
    stream: !isNear(beside.gapP99, quiet.gapP99),
    delivery: beside.deliveryP99 >= bounds.deliveryMs,
    memory: growthMb >= bounds.growthMb || afterMb > restMb,
  };
  return Object.entries(missed).flatMap(([name, isMissed]) => (isMissed ? [name] : []));
}

/** Resident memory of the service and its engine, in mebibytes. */
function memoryOf({ service }: Scene): number {
  const pid = service.child.pid ?? 0;
  return [pid, ...childPids(pid)].reduce((sum, each) => sum + rssBytes(each), 0) / mebibyte;
}

async function measure(
  scene: Scene,
  polite: PoliteClients,
  neighbour: HostileNeighbour,
  quiet: PoliteFigures,
): Promise<Row> {
  const beforeMb = memoryOf(scene);
  let mostMb = beforeMb;
  polite.take();
  const end = startHostile(neighbour.name, scene.target);
  for (const untilMs = performance.now() + Number(values.seconds) * 1_000; performance.now() < untilMs; ) {
    await delay(sampleMs);
    mostMb = Math.max(mostMb, memoryOf(scene));
  }
  const beside = polite.take();
  await end();
  const endedAtMs = performance.now();
  let afterMb = memoryOf(scene) - beforeMb;
  while (afterMb > restMb && performance.now() - endedAtMs < Number(values.rest) * 1_000) {
    await delay(sampleMs);
    afterMb = memoryOf(scene) - beforeMb;
  }
  // Only after this time do missing deliveries count as lost.
  await delay(deliveryMaxMs - (performance.now() - endedAtMs));
  const late = polite.take();
  const failed = beside.failed + late.failed;
  const failures = [...beside.failures, ...late.failures];
  return {
    neighbour: neighbour.name,
    quiet,
    beside: { ...beside, failed, failures },
    growthMb: mostMb - beforeMb,
    afterMb,
  };
}

const isWanted = ({ name }: HostileNeighbour): boolean => values.only.split(",").some((part) => name.includes(part));

async function quietFigures(polite: PoliteClients, model: string): Promise<PoliteFigures> {
  polite.streamFrom(model);
  await delay(warmUpMs);
  polite.take();
  await delay(Number(values.seconds) * 1_000);
  return polite.take();
}

async function measureAll(scene: Scene): Promise<readonly Row[]> {
  const polite = await PoliteClients.start(scene);
  const quietEngine = await quietFigures(polite, names.computed);
  const quiet = await quietFigures(polite, names.stream);
  const rows: Row[] = [];
  for (const neighbour of hostileNeighbours.filter(isWanted)) {
    const usesEngine = neighbour.usesEngine === true;
    polite.streamFrom(usesEngine ? names.computed : names.stream);
    await delay(warmUpMs / 2);
    const row = await measure(scene, polite, neighbour, usesEngine ? quietEngine : quiet);
    process.stderr.write(`${row.neighbour}: ${missedBounds(row).join(", ") || "held"}\n`);
    for (const failure of row.beside.failures) process.stderr.write(`  ${failure}\n`);
    rows.push(row);
  }
  await polite.stop();
  return rows;
}

function tableOf(rows: readonly Row[]): string {
  const [cpu] = cpus();
  const heading = `uis ${version}, ${cpu?.model.trim()} x ${cpus().length}, Node ${process.version}, ${values.seconds} s each`;
  const ms = (value: number, quiet: number): string => `${value.toFixed(0)} (${quiet.toFixed(0)})`;
  const lines = rows.map((row) => {
    const { quiet, beside, growthMb, afterMb } = row;
    const missed = missedBounds(row);
    return [
      row.neighbour,
      `${beside.failed} of ${beside.done + beside.failed}`,
      ms(beside.chatP99, quiet.chatP99),
      ms(beside.gapP99, quiet.gapP99),
      ms(beside.deliveryP99, quiet.deliveryP99),
      `${growthMb.toFixed(0)}, then ${afterMb.toFixed(0)}`,
      missed.length === 0 ? "held" : `missed: ${missed.join(", ")}`,
    ];
  });
  const head = [
    "neighbour",
    "failed",
    "chat p99 ms (alone)",
    "stream gap p99 ms (alone)",
    "delivery p99 ms (alone)",
    "memory MB",
    "bounds",
  ];
  const rowOf = (cells: readonly string[]): string => `| ${cells.join(" | ")} |\n`;
  return `${heading}\n\n${[head, head.map(() => "---"), ...lines].map(rowOf).join("")}`;
}

/** Runs this program again in a network of its own, whose name server never answers. False: this user may not. */
function runIsolated(): boolean {
  const folder = temporaryFolder("neighbours");
  const [hosts, resolver] = [join(folder, "hosts"), join(folder, "resolv.conf")];
  writeFileSync(hosts, "127.0.0.1 localhost\n");
  writeFileSync(resolver, "nameserver 127.0.0.1\n");
  const prepare = 'ip link set lo up && mount --bind "$0" /etc/hosts && mount --bind "$1" /etc/resolv.conf && shift';
  const unshare = ["--map-root-user", "--mount", "--net", "sh", "-c"];
  const inNetwork = (script: string, command: readonly string[]) => [...unshare, script, hosts, resolver, ...command];
  if (spawnSync("unshare", inNetwork(prepare, []), { stdio: "ignore" }).status !== 0) return false;
  const options = process.argv.slice(2);
  const again = [
    "taskset",
    "-c",
    String(clientCore),
    process.execPath,
    ...process.execArgv,
    resolve("test/bench/bench.ts"),
    "neighbours",
    ...options,
  ];
  const { status } = spawnSync("unshare", inNetwork(`${prepare} && exec "$@"`, again), {
    stdio: "inherit",
    env: { ...process.env, [isolated]: "1" },
  });
  process.exitCode = status ?? 1;
  return true;
}

async function run(): Promise<void> {
  const program = resolve("dist/app/cli.js");
  if (!existsSync(program)) throw new Error("there is no build: run `npm run build` first");
  const scene = await openScene({
    usageRows: Number(values.rows),
    keys: Number(values.keys),
    models: 500,
    isSystemNames: process.env[isolated] === "1",
    spawn: {
      command: [process.execPath, program, "serve"],
      under: (command) => ["taskset", "-c", String(serverCore), ...command],
    },
  });
  try {
    const rows = await measureAll(scene);
    process.stdout.write(tableOf(rows));
    if (rows.some((row) => missedBounds(row).length > 0)) process.exitCode = 1;
  } finally {
    await scene.close();
  }
}

if (process.env[isolated] === "1" || !runIsolated()) await run();
