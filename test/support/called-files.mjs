/**
 * Preload (`node --import`): with each SIGUSR2 every thread writes the files of ours of which a function was called since
 * the last one, to `$CALLED_FILES/<signal>-<thread>.json`.
 */
import { renameSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import { isMainThread, threadId } from "node:worker_threads";

const folder = process.env.CALLED_FILES;
const session = new Session();
session.connect();
session.post("Profiler.enable");
session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

const signals = new BroadcastChannel("called-files");
signals.onmessage = ({ data }) => take(data);
signals.unref();

let count = 0;
if (isMainThread) {
  process.on("SIGUSR2", () => {
    count += 1;
    signals.postMessage(count);
    take(count);
  });
}

function take(signal) {
  session.post("Profiler.takePreciseCoverage", (error, taken) => {
    if (error) throw new Error(error.message);
    const files = taken.result
      // The function that begins at 0 is the module itself.
      .filter(({ functions }) =>
        functions.some((called) => called.ranges[0].count > 0 && called.ranges[0].startOffset > 0),
      )
      .filter(({ url }) => !url.includes("/node_modules/"))
      .map(({ url }) => /\/(?:dist|src)\/(.*)\.[jt]sx?(?:\?.*)?$/.exec(url)?.[1])
      .filter((path) => path !== undefined);
    const file = `${folder}/${signal}-${threadId}.json`;
    writeFileSync(`${file}.part`, JSON.stringify(files));
    renameSync(`${file}.part`, file);
  });
}
