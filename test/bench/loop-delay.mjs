/**
 * Loaded into the server with `--import`: at SIGUSR2 it writes the delays of the event loop since the previous SIGUSR2 as
 * JSON to the file that LOOP_DELAY_FILE names.
 */
import { renameSync, writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";

const file = process.env["LOOP_DELAY_FILE"] ?? "";
const resolutionMs = 5;
const histogram = monitorEventLoopDelay({ resolution: resolutionMs });
histogram.enable();

/** The histogram contains the time between two ticks, not the excess over the tick. */
const lateMs = (nanoseconds) => Math.max(0, nanoseconds / 1e6 - resolutionMs);

process.on("SIGUSR2", () => {
  const report = {
    p50Ms: lateMs(histogram.percentile(50)),
    p99Ms: lateMs(histogram.percentile(99)),
    maxMs: lateMs(histogram.max),
  };
  histogram.reset();
  // Renamed, so that a reader never sees a partial file.
  writeFileSync(`${file}.new`, JSON.stringify(report));
  renameSync(`${file}.new`, file);
});
