import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const source = fileURLToPath(new URL("./read-only-disk.c", import.meta.url));

/** Makes a folder read-only, and writable again, for running processes that were started with its environment. */
export class ReadOnlyDisk {
  readonly #folder = mkdtempSync(join(tmpdir(), "uis-read-only-"));
  readonly #switch: number;
  readonly env: Readonly<Record<string, string>>;

  /** `folder`: absolute path. Needs `gcc`. */
  constructor(folder: string) {
    const at = (name: string) => join(this.#folder, name);
    const library = at("read-only-disk.so");
    execFileSync("gcc", ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source]);
    this.#switch = openSync(at("switch"), "w");
    this.env = { LD_PRELOAD: library, READ_ONLY_FOLDER: folder, READ_ONLY_SWITCH: at("switch") };
    this.set(false);
  }

  set(isReadOnly: boolean): void {
    writeSync(this.#switch, isReadOnly ? "1" : "0", 0);
  }

  remove(): void {
    closeSync(this.#switch);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
