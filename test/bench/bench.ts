/**
 * Measures this build (`npm run build` first) on Linux with two cores or more.
 *
 *   npm run bench                the transports, with the scripted engine (run.ts)
 *   npm run bench -- engine      the embedded engine against its own binding and llama.cpp's server (engine.ts)
 *   npm run bench -- state       limits and usage in Redis and in the file against state in memory (state.ts)
 *   npm run bench -- gateway     in front of an upstream server against a bare pass-through (gateway.ts)
 *   npm run bench -- webhooks    deliveries, embedded and in Redis, and the queue against BullMQ's (webhooks.ts)
 *   npm run bench -- growth      cost of a request as endpoints, thresholds, keys, models and others grow (growth.ts)
 *   npm run bench -- neighbours  polite clients while hostile clients of each kind run (neighbours.ts)
 *   npm run bench -- hop         processor time and latency that a gateway adds to a core (hop.ts)
 *   npm run bench -- scale       workers, Redis, memory and network for a rate of requests (scale.ts)
 *
 * With `--quick` each measures once and briefly: enough to check that it works, not to compare.
 */
interface Part {
  readonly load: () => Promise<unknown>;
  /** The options of `--quick`. */
  readonly quick: readonly string[];
}

const transports: Part = { load: () => import("./run.js"), quick: ["--repeats", "2"] };
const parts: ReadonlyMap<string, Part> = new Map([
  ["engine", { load: () => import("./engine.js"), quick: ["--repeats", "1", "--tokens", "64"] }],
  ["state", { load: () => import("./state.js"), quick: ["--seconds", "2", "--repeats", "1", "--streams", "50"] }],
  [
    "gateway",
    {
      load: () => import("./gateway.js"),
      quick: ["--seconds", "0.5", "--repeats", "1", "--warm-up", "1", "--hold", "2"],
    },
  ],
  [
    "growth",
    {
      load: () => import("./growth.js"),
      quick: ["--seconds", "0.5", "--repeats", "1", "--minutes", "0.2", "--backlog", "3", "--scale", "0.05"],
    },
  ],
  [
    "neighbours",
    {
      load: () => import("./neighbours.js"),
      quick: ["--seconds", "5", "--rest", "10", "--rows", "200000", "--keys", "20000"],
    },
  ],
  ["hop", { load: () => import("./hop.js"), quick: ["--seconds", "0.5", "--repeats", "1", "--warm-up", "1"] }],
  [
    "scale",
    {
      load: () => import("./scale.js"),
      quick: ["--seconds", "1", "--repeats", "1", "--streams", "100", "--keys", "200", "--workers", "1,2"],
    },
  ],
  [
    "webhooks",
    { load: () => import("./webhooks.js"), quick: ["--deliveries", "2000", "--repeats", "1", "--seconds", "1"] },
  ],
]);
const [node = "", script = "", name = "", ...rest] = process.argv;
const part = parts.get(name);
const options = (part === undefined ? [name, ...rest] : rest).filter((option) => option !== "");
const { load, quick } = part ?? transports;
// Each part reads its own options from process.argv.
process.argv = [node, script, ...options.flatMap((option) => (option === "--quick" ? quick : [option]))];
await load();
