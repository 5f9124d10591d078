import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../eventually.js";
import { freePort, newFolder, type RedisProcess, startProgram } from "./redis-process.js";
import { baseArgs, readyLine } from "./start-redis.js";

export interface SentinelGroup {
  readonly url: string;
  readonly primary: RedisProcess;
  readonly replica: RedisProcess;
  /** Port of the primary that all Sentinels agree on; null while they disagree. */
  primaryPort(): Promise<number | null>;
  remove(): Promise<void>;
}

const sentinelCount = 3;
/** Time after which a silent primary is replaced. */
const downAfterMs = 1_000;

/** Starts a primary and a replica under three Sentinels, which call the primary `main`. */
export async function startSentinelGroup(): Promise<SentinelGroup> {
  const primary = await startServer([]);
  const replica = await startServer(["--replicaof", "127.0.0.1", String(primary.port)]);
  const sentinels: RedisProcess[] = [];
  for (let n = 0; n < sentinelCount; n += 1) sentinels.push(await startSentinel(primary.port));
  await eventually(() => isWhole(primary, sentinels), "Sentinels that know each other and the replica", 30_000);
  const addresses = sentinels.map(({ port }) => `127.0.0.1:${port}`);
  return {
    url: `redis+sentinel://${addresses.join(",")}/main`,
    primary,
    replica,
    async primaryPort() {
      const ask = (sentinel: RedisProcess) => sentinel.cli("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main");
      const [first, ...others] = await Promise.all(sentinels.map(ask));
      return others.every((other) => other === first) ? Number(first?.split("\n")[1]) : null;
    },
    async remove() {
      await Promise.all([...sentinels, primary, replica].map((program) => program.remove()));
    },
  };
}

async function startServer(args: readonly string[]): Promise<RedisProcess> {
  const [port, folder] = [await freePort(), newFolder()];
  return startProgram({ args: ["--port", String(port), ...baseArgs("everysec"), ...args], port, folder, readyLine });
}

async function startSentinel(primaryPort: number): Promise<RedisProcess> {
  const [port, folder] = [await freePort(), newFolder()];
  const file = join(folder, "sentinel.conf");
  const lines = [
    `port ${port}`,
    "bind 127.0.0.1",
    `sentinel monitor main 127.0.0.1 ${primaryPort} 2`,
    `sentinel down-after-milliseconds main ${downAfterMs}`,
    "sentinel failover-timeout main 5000",
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  return startProgram({ args: [file, "--sentinel"], port, folder, readyLine: "+monitor master" });
}

async function isWhole(primary: RedisProcess, sentinels: readonly RedisProcess[]): Promise<boolean> {
  const views = await Promise.all(sentinels.map((sentinel) => sentinel.cli("SENTINEL", "MASTER", "main")));
  const knowAll = views.every(
    (view) => valueIn(view, "num-other-sentinels") === "2" && valueIn(view, "num-slaves") === "1",
  );
  return knowAll && (await primary.cli("INFO", "replication")).includes("state=online");
}

/** `redis-cli` prints each name and each value on its own line. */
function valueIn(view: string, name: string): string | undefined {
  const lines = view.split("\n").map((line) => line.trim());
  return lines[lines.indexOf(name) + 1];
}
