import { afterEach, expect, it } from "vitest";
import { TwoWorkers } from "../../support/fleet/two-workers.js";
import { receivePacedStreams } from "../../support/paced-streams.js";

const streams = 5_000;
const rampMs = 20_000;
const paceMs = 250;
/** Streams last 45 s, so that all are open at the same time for at least 20 s. */
const tokens = 180;
const unlimited = { requests_per_minute: 10_000_000, tokens_per_minute: 1_000_000_000 };

let two: TwoWorkers;
afterEach(() => two.remove());

it("two workers send 5,000 streams of four chunks a second on time, and none breaks (REL-27)", {
  timeout: 300_000,
}, async () => {
  const paced = { text: "tick ", tokens, token_delay_ms: paceMs };
  two = await TwoWorkers.start({
    models: [{ id: "paced", engine: "scripted", slots: streams, scripted: paced }],
    rate_limits: { default_key: unlimited, default_account: unlimited },
  });
  const key = await two.newKey("paced");
  const port = Number(new URL(two.service.http).port);
  const figures = await receivePacedStreams({ port, key, model: "paced", streams, rampMs, paceMs, tokens });
  process.stdout.write(`${JSON.stringify(figures)}\n`);
  expect(figures.openMax).toBe(streams);
  expect(figures.whole).toBe(streams);
  // The aim is 100 ms.
  expect(figures.lateP99Ms).toBeLessThan(5 * 100);
});
