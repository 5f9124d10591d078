import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import type { TestContext } from "vitest";

/** Wraps a command line so that `folder` is a private disk of its process. */
export function onOwnDisk(folder: string, mebibytes: number, command: readonly string[]): string[] {
  return inOwnMounts(`mount -t tmpfs -o size=${mebibytes}m tmpfs "$0"`, folder, command);
}

/** Wraps a command line so that its process can read but not write the folder or file at `path`. */
export function withReadOnly(path: string, command: readonly string[]): string[] {
  return inOwnMounts('mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"', path, command);
}

function inOwnMounts(mount: string, path: string, command: readonly string[]): string[] {
  return ["unshare", "--map-root-user", "--mount", "sh", "-c", `${mount} && exec "$@"`, path, ...command];
}

/** Skips a test if private mounts are not available; with `CI=true` the test fails instead. */
export function needsOwnMounts(context: TestContext): void {
  const [program = "", ...args] = inOwnMounts("true", "/", ["true"]);
  if (spawnSync(program, args, { stdio: "ignore" }).status === 0) return;
  if (process.env["CI"] === "true") throw new Error("unshare --map-root-user --mount is not permitted here");
  context.skip("this user may not create private mounts (unshare --map-root-user --mount)");
}

/** A small private disk that outlives the programs that use it. */
export interface LastingDisk {
  /** A program's command line, run in the disk's folder. */
  under(command: readonly string[]): string[];
  /** Fills the disk. Returns a function that frees the space. */
  fill(): Promise<() => Promise<void>>;
  /** Removes the disk. Its programs must have ended. */
  remove(): Promise<void>;
}

/** Mounts a disk at `folder`. */
export async function lastingDisk(folder: string, mebibytes: number): Promise<LastingDisk> {
  // The process that holds the mount ends with its input, so no later than this process.
  const [program = "", ...args] = onOwnDisk(folder, mebibytes, ["sh", "-c", "echo mounted && exec cat"]);
  const keeper = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(keeper, "exit");
  await Promise.race([
    once(keeper.stdout, "data"),
    exited.then(() => Promise.reject(new Error(`no disk can be mounted at ${folder}`))),
  ]);
  const pid = keeper.pid ?? 0;
  const enter = ["nsenter", "--preserve-credentials", "--user", "--mount", "--target", String(pid)];
  return {
    under: (command) => [...enter, "sh", "-c", 'cd "$0" && exec "$@"', folder, ...command],
    fill: () => fillDisk(pid, folder),
    async remove() {
      keeper.stdin.end();
      await exited;
    },
  };
}

/** Fills the private disk of a process. Returns a function that frees the space. */
export async function fillDisk(pid: number, folder: string): Promise<() => Promise<void>> {
  const filler = join(`/proc/${pid}/root`, folder, "filler");
  const stream = createWriteStream(filler);
  const block = Buffer.alloc(4096);
  const write = (): void => {
    while (!stream.errored && stream.write(block)) {}
  };
  stream.on("drain", write);
  write();
  // The stream ends with an error when the disk is full.
  await finished(stream).catch(() => {});
  return () => rm(filler);
}
