import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const source = fileURLToPath(new URL("./movable-clock.c", import.meta.url));

/**
 * Sets the wall clock of processes that are started with its environment forward or back while they run. Their monotonic clock
 * does not change, as on a machine whose clock is set.
 */
export class MovableClock {
  readonly #folder = mkdtempSync(join(tmpdir(), "uis-clock-"));
  readonly #offset: number;
  readonly env: Readonly<Record<string, string>>;

  /** Needs `gcc`. */
  constructor() {
    const at = (name: string) => join(this.#folder, name);
    const library = at("movable-clock.so");
    execFileSync("gcc", ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source]);
    this.#offset = openSync(at("offset"), "w");
    this.env = { LD_PRELOAD: library, CLOCK_OFFSET_FILE: at("offset") };
    this.set(0);
  }

  /** Offset from the true time, in whole seconds. */
  set(seconds: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(seconds));
    writeSync(this.#offset, bytes, 0, bytes.length, 0);
  }

  remove(): void {
    closeSync(this.#offset);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
