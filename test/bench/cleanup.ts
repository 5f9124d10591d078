/**
 * Removes the folders and child processes of a benchmark when its process exits: after its last line, after an error, and
 * after a signal such as that of Ctrl-C.
 */
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { childPids } from "./process-figures.js";

const folders: string[] = [];
const children = new Set<ChildProcess>();

/** Creates an empty folder for temporary files, which is removed at the exit of this process. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `uis-${name}-`));
  folders.push(folder);
  return folder;
}

/** Kills the child and its descendants at the exit of this process, unless it has ended before. Returns the child. */
export function killAtExit<Child extends ChildProcess>(child: Child): Child {
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

function killTree(pid: number): void {
  try {
    // Listed before the kill, because a killed process's children get another parent.
    const descendants = childPids(pid);
    process.kill(pid, "SIGKILL");
    for (const descendant of descendants) killTree(descendant);
  } catch {
    // The process has ended in the meantime.
  }
}

process.once("exit", () => {
  for (const { pid } of children) if (pid !== undefined) killTree(pid);
  // Retried, because a killed process can still write for a moment.
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 20 });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}
