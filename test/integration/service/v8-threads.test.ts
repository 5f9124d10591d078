import { readdirSync, readFileSync } from "node:fs";
import { expect, it, onTestFinished } from "vitest";
import { ServiceFolder } from "../../support/service-process.js";

/** Position of the nice value in `stat` of a thread, after its name in parentheses, which may contain blanks. */
const niceField = 16;

/** The nice values of the threads of a process, in the order in which they started. */
function niceValues(pid: number): readonly number[] {
  const threads = readdirSync(`/proc/${pid}/task`).map(Number);
  threads.sort((a, b) => a - b);
  return threads.map((thread) => {
    const line = readFileSync(`/proc/${pid}/task/${thread}/stat`, "utf8");
    return Number(line.slice(line.lastIndexOf(")") + 2).split(" ")[niceField]);
  });
}

// Only Linux has priorities of threads.
it.skipIf(process.platform !== "linux")("V8's four helper threads have a lower priority than requests", async () => {
  const folder = await ServiceFolder.create();
  onTestFinished(() => folder.remove());
  const { child } = await folder.start({ models: [{ id: "test-chat", engine: "scripted" }] });
  const [main, delayed, ...others] = niceValues(child.pid ?? 0);
  expect([main, delayed, ...others.slice(0, 4)]).toEqual([0, 0, 10, 10, 10, 10]);
  expect(new Set(others.slice(4))).toEqual(new Set([0]));
});
