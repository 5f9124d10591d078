/**
 * Jobs that do nothing, through BullMQ: `node jobs.mjs <port of Redis> <jobs>` prints `{"jobs_per_second":n}`. 64 in
 * flight, like our dispatcher; completed jobs are removed, while ours are kept.
 */
import { Queue, Worker } from "bullmq";

const [port, jobs] = process.argv.slice(2).map(Number);
const atOnce = 64;
const options = { connection: { host: "127.0.0.1", port, maxRetriesPerRequest: null }, prefix: "{bull}" };
const body = JSON.stringify({ id: `evt_${"0".repeat(32)}`, type: "request.completed", data: "y".repeat(300) });

const queue = new Queue("jobs", options);
for (let made = 0; made < jobs; made += 500) {
  await queue.addBulk(
    Array.from({ length: Math.min(500, jobs - made) }, (_, i) => ({
      name: "delivery",
      data: { body },
      opts: { jobId: `job-${made + i}`, removeOnComplete: true },
    })),
  );
}

let done = 0;
const startedMs = performance.now();
const worker = await new Promise((resolve) => {
  const running = new Worker(
    "jobs",
    async () => {
      done += 1;
      if (done === jobs) resolve(running);
    },
    { ...options, concurrency: atOnce },
  );
});
const seconds = (performance.now() - startedMs) / 1_000;
await worker.close();
await queue.close();
process.stdout.write(`${JSON.stringify({ jobs_per_second: Math.round(jobs / seconds) })}\n`);
