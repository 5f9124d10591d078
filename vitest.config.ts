import { defineConfig } from "vitest/config";

const project = (name: string, settings: object = {}) => ({
  test: { name, include: [`test/${name}/**/*.test.ts`], ...settings },
});

export default defineConfig({
  test: {
    // Vitest would leave a core to itself: one file at a time on two cores.
    maxWorkers: 2,
    projects: [
      project("unit", { testTimeout: 20_000 }),
      project("suites", { testTimeout: 20_000 }),
      project("conformance", { testTimeout: 30_000, hookTimeout: 60_000 }),
      project("integration", { testTimeout: 60_000, hookTimeout: 60_000 }),
      project("browser", { testTimeout: 60_000, hookTimeout: 120_000 }),
      project("e2e", { testTimeout: 120_000, hookTimeout: 300_000 }),
      // Real weights on few threads: one file at a time, so that they do not take each other's core.
      project("model", { testTimeout: 120_000, hookTimeout: 300_000, fileParallelism: false }),
    ],
  },
});
