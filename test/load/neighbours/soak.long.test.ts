import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hostileNeighbours } from "../../support/neighbours/hostile-neighbours.js";
import { startHostile } from "../../support/neighbours/hostile-process.js";
import { PoliteClients } from "../../support/neighbours/polite-clients.js";
import { names, openScene, type Scene } from "../../support/neighbours/scene.js";

const soakMs = 30 * 60_000;
/** Duration of the load of one kind of neighbour, and of the pause after each round over all kinds. */
const neighbourMs = 15_000;
const restMs = 30_000;
/** Number of rounds at the start and at the end whose lowest memory use is compared: V8 returns memory to the system late. */
const comparedRounds = 3;
const memoryMbMax = 60;
const descriptorsMax = 10;
const filesMax = 3;

interface Level {
  readonly memoryMb: number;
  readonly descriptors: number;
  /** Number of files in the data folder, and their size in bytes. */
  readonly files: number;
  readonly fileMb: number;
}

let scene: Scene;

beforeAll(async () => {
  scene = await openScene({ usageRows: 1_000_000, keys: 100_000, models: 500, isSystemNames: false });
}, 120_000);

afterAll(() => scene.close());

function levelNow(): Level {
  const { service } = scene;
  const pid = service.child.pid ?? 0;
  const dataDir = service.line.data_dir;
  const files = readdirSync(dataDir, { recursive: true, encoding: "utf8" });
  const bytes = files.reduce(
    (sum, name) => sum + (statSync(join(dataDir, name), { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
  return {
    memoryMb: service.rssBytes() / 2 ** 20,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    files: files.length,
    fileMb: bytes / 2 ** 20,
  };
}

describe("a service under hostile load of every kind, one after the other", () => {
  it("serves well-behaved clients without a failure, and memory, descriptors and files do not grow (E-1, E-2, E-10, E-12, E-15)", {
    timeout: soakMs + 600_000,
  }, async () => {
    const polite = await PoliteClients.start(scene);
    const levels: Level[] = [];
    const failures: string[] = [];
    for (const untilMs = performance.now() + soakMs; performance.now() < untilMs; ) {
      for (const { name, usesEngine } of hostileNeighbours) {
        polite.streamFrom(usesEngine === true ? names.computed : names.stream);
        const end = startHostile(name, scene.target);
        await delay(neighbourMs);
        await end();
        failures.push(...polite.take().failures.map((failure) => `${name}: ${failure}`));
      }
      await delay(restMs);
      levels.push(levelNow());
    }
    await polite.stop();
    failures.push(...polite.take().failures);
    mkdirSync("test-results/figures", { recursive: true });
    writeFileSync("test-results/figures/neighbours-soak.json", `${JSON.stringify(levels, null, 2)}\n`);
    expect(failures).toEqual([]);
    const [first, last] = [levels[0], levels.at(-1)];
    expect(levels.length).toBeGreaterThan(comparedRounds);
    const lowest = (part: readonly Level[]): number => Math.min(...part.map(({ memoryMb }) => memoryMb));
    const growthMb = lowest(levels.slice(-comparedRounds)) - lowest(levels.slice(0, comparedRounds));
    expect(growthMb).toBeLessThan(memoryMbMax);
    expect((last?.descriptors ?? 0) - (first?.descriptors ?? 0)).toBeLessThanOrEqual(descriptorsMax);
    expect((last?.files ?? 0) - (first?.files ?? 0)).toBeLessThanOrEqual(filesMax);
  });
});
