import { readFile } from "node:fs/promises";
import { sqliteVersion } from "../compose.js";
import { type Check, fail, ok, warn } from "./check.js";

const oldestNode = [20, 19] as const;
/** Older release lines get no security fixes any more. */
const oldestSupportedMajor = 22;
const openFilesWanted = 4096;

/** `version` as `process.versions.node` has it. */
export function runtimeCheck(version: string): Check {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const detail = `Node ${version}`;
  if (major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1])) {
    return fail("node", detail, `install Node ${oldestNode.join(".")} or newer`);
  }
  if (major < oldestSupportedMajor) {
    return warn("node", `${detail}: this release line gets no security fixes any more`, "install Node 24");
  }
  return ok("node", detail);
}

/** Whether the binding of the embedded store loads and works. */
export function sqliteCheck(): Check {
  try {
    return ok("sqlite", `SQLite ${sqliteVersion()}`);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return fail("sqlite", reason, "use Node 22.13 or newer, or install without --omit=optional");
  }
}

/** Each connection takes one open file. Known on Linux only. */
export async function openFilesCheck(): Promise<Check> {
  const limits = await readFile("/proc/self/limits", "utf8").catch(() => "");
  const limit = /^Max open files\s+(\d+|unlimited)/m.exec(limits)?.[1];
  if (limit === undefined) return ok("open_files", "not known on this system");
  if (limit !== "unlimited" && Number(limit) < openFilesWanted) {
    return warn("open_files", `at most ${limit} open files`, "raise it: ulimit -n 65536, or LimitNOFILE= with systemd");
  }
  return ok("open_files", `at most ${limit} open files`);
}
