import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files that only `npm run test:long` runs: soaks, load, schedules, crash rounds, real models, other languages and Nodes.
 * By hand: `UIS_TEST_TIER=long npx vitest run FILE`.
 */
const longOnly = "**/*.long.test.ts";
const exclude =
  process.env["UIS_TEST_TIER"] === "long" ? configDefaults.exclude : [...configDefaults.exclude, longOnly];

/** Skips tests whose program is missing. */
const runner = "./test/support/missing-program.ts";

/** The default of one second fails on a busy machine. */
const poll = { timeout: 10_000 };

const project = (name: string, settings: object = {}) => ({
  test: { name, include: [`test/${name}/**/*.test.ts`], exclude, runner, expect: { poll }, ...settings },
});

/** `isolate: false`: files of one worker share its modules. To load the service for each file takes longer than most tests. */
const projects = [
  project("e2e", { testTimeout: 120_000, hookTimeout: 300_000 }),
  project("browser", { testTimeout: 60_000, hookTimeout: 120_000, isolate: false }),
  project("integration", { testTimeout: 60_000, hookTimeout: 60_000, isolate: false }),
  project("suites", { testTimeout: 20_000 }),
  project("conformance", { testTimeout: 30_000, hookTimeout: 60_000, isolate: false }),
  project("unit", { testTimeout: 20_000, isolate: false }),
  // Real weights on few threads, and fixed rates of requests to several processes: both need all cores, so that each file runs alone.
  project("model", { testTimeout: 120_000, hookTimeout: 300_000, fileParallelism: false }),
  project("load", { testTimeout: 120_000, hookTimeout: 300_000, fileParallelism: false }),
];

/** Projects in the order above, whose files are the longer the earlier they stand: at the end both cores are still busy. */
class LongFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const names = projects.map(({ test }) => test.name);
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => names.indexOf(a.project.name) - names.indexOf(b.project.name));
  }
}

export default defineConfig({
  test: {
    // One more than cores, because many tests wait; Vitest would leave a core to itself.
    maxWorkers: 3,
    sequence: { sequencer: LongFilesFirst },
    projects,
  },
});
