import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * The wall clock of processes that are started with its environment, set forward or back while they run. Their monotonic
 * clock goes on as it is, as it does on a machine whose clock is set.
 */
export class MovableClock {
  readonly #folder = mkdtempSync(join(tmpdir(), "uis-clock-"));
  readonly #file = join(this.#folder, "offset");
  readonly env: Readonly<Record<string, string>>;

  /** Needs the program `faketime`, which knows where its library is. */
  constructor() {
    this.set(0);
    const library = execFileSync("faketime", ["-m", "-f", "+0", "printenv", "LD_PRELOAD"], { encoding: "utf8" }).trim();
    this.env = {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    };
  }

  /** How far it is from the true time, in seconds. */
  set(seconds: number): void {
    writeFileSync(this.#file, `${seconds < 0 ? "-" : "+"}${Math.abs(seconds)}`);
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
