/**
 * Measures this build (`npm run build` first) on Linux with two cores or more.
 *
 *   npm run bench                the doors, with the scripted engine (run.ts)
 *   npm run bench -- engine      the embedded engine against its own binding (engine.ts)
 *   npm run bench -- state       limits and usage in Redis and in the file against state in memory (state.ts)
 *   npm run bench -- webhooks    deliveries, embedded and in Redis, and the queue against BullMQ's (webhooks.ts)
 */
const parts: ReadonlyMap<string, () => Promise<unknown>> = new Map([
  ["engine", () => import("./engine.js")],
  ["state", () => import("./state.js")],
  ["webhooks", () => import("./webhooks.js")],
]);
const part = parts.get(process.argv[2] ?? "");
if (part !== undefined) process.argv.splice(2, 1);
await (part ?? (() => import("./run.js")))();
