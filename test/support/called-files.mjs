/**
 * Preload (`node --import`): at each SIGUSR2 every thread writes a list of our source files to
 * `$CALLED_FILES/<signal>-<thread>.json`: those with a function that was called since the previous signal.
 */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import { SourceMap } from "node:module";
import { fileURLToPath } from "node:url";
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

/** Files of the bundle with their source maps. */
const bundled = new Map();

function readBundled(url) {
  const file = fileURLToPath(url);
  const map = new SourceMap(JSON.parse(readFileSync(`${file}.map`, "utf8")));
  const lineStarts = [0];
  const text = readFileSync(file, "utf8");
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lineStarts.push(at + 1);
  return { map, lineStarts };
}

/** The file of src/ or gen/ from which the code at an offset of a bundled file comes; empty for code of the bundler. */
function sourceAt(url, offset) {
  if (!bundled.has(url)) bundled.set(url, readBundled(url));
  const { map, lineStarts } = bundled.get(url);
  const line = lineStarts.findLastIndex((start) => start <= offset);
  return map.findEntry(line, offset - lineStarts[line]).originalSource ?? "";
}

function take(signal) {
  session.post("Profiler.takePreciseCoverage", (error, taken) => {
    if (error) throw new Error(error.message);
    const files = taken.result
      .flatMap(({ url, functions }) => {
        // A function that begins at offset 0 is the module itself.
        const called = functions
          .map(({ ranges: [whole] }) => whole)
          .filter((whole) => whole.count > 0 && whole.startOffset > 0);
        return url.includes("/bundle/")
          ? called.map(({ startOffset }) => sourceAt(url, startOffset))
          : called.length > 0
            ? [url]
            : [];
      })
      .filter((path) => !path.includes("/node_modules/"))
      .map((path) => /\/?(?:dist|src)\/(.*)\.[jt]sx?(?:\?.*)?$/.exec(path)?.[1])
      .filter((path) => path !== undefined);
    const file = `${folder}/${signal}-${threadId}.json`;
    writeFileSync(`${file}.part`, JSON.stringify([...new Set(files)]));
    renameSync(`${file}.part`, file);
  });
}
