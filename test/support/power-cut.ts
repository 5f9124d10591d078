/** Simulates a power failure of a process: everything that it has written and not synced is lost. */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readdir, rm, stat, truncate } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export class PowerCut {
  readonly #folder: string;
  readonly #library: string;

  /** Compiles the preloaded library; `folder` is empty and receives it and the synced data. */
  constructor(folder: string) {
    this.#folder = join(folder, "synced");
    this.#library = join(folder, "synced-files.so");
    const source = fileURLToPath(new URL("./synced-files.c", import.meta.url));
    execFileSync("gcc", ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", this.#library, source, "-ldl"]);
  }

  /** Prepares the next process. Files in the directory before it starts count as synced. */
  async environment(dataDir: string): Promise<Record<string, string>> {
    await rm(this.#folder, { recursive: true, force: true });
    await mkdir(this.#folder, { recursive: true });
    for (const name of existsSync(dataDir) ? await readdir(dataDir) : []) {
      const file = join(dataDir, name);
      await copyFile(file, join(this.#folder, String((await stat(file)).ino)));
    }
    return { LD_PRELOAD: this.#library, SYNCED_FILES: this.#folder };
  }

  /** Start of the last sync, by `Date.now()`: everything written before is kept. */
  async syncedAtMs(): Promise<number> {
    const kept = (await readdir(this.#folder)).filter((name) => !name.endsWith(".unfinished"));
    const syncs = await Promise.all(kept.map(async (name) => (await stat(join(this.#folder, name))).birthtimeMs));
    return Math.max(...syncs);
  }

  /** Restores the files of a killed process to their state at the last sync. */
  async cut(dataDir: string): Promise<void> {
    for (const name of await readdir(dataDir)) {
      const file = join(dataDir, name);
      const synced = join(this.#folder, String((await stat(file)).ino));
      if (existsSync(synced)) await copyFile(synced, file);
      else await truncate(file, 0);
    }
  }
}
