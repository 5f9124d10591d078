import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

const quotaFile = "/sys/fs/cgroup/cpu.max";

/**
 * Threads of the engine when none are configured: one less than there are cores, and at least one. Its threads wait for
 * each other without sleeping, so a single core that others need stalls all of them.
 */
export function defaultThreads(): number {
  return Math.max(1, Math.min(availableParallelism(), coresOfQuota(readQuota())) - 1);
}

/** Cores that a `cpu.max` of control groups grants (`<microseconds|max> <period>`), rounded up; without one, no limit. */
export function coresOfQuota(text: string): number {
  const [quota, period] = text.trim().split(" ").map(Number);
  const cores = Math.ceil((quota ?? Number.NaN) / (period ?? Number.NaN));
  return cores >= 1 ? cores : Number.POSITIVE_INFINITY;
}

/** Node 20 does not look at the quota of a container. */
function readQuota(): string {
  try {
    return readFileSync(quotaFile, "utf8");
  } catch {
    // No such file: no control groups of version 2, or the root group.
    return "max";
  }
}
