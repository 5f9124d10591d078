import { spawnSync } from "node:child_process";
import { type Browser, chromium } from "playwright-core";

const program = "/usr/bin/chromium";

/** Whether Debian's package chromium is installed. */
export const hasChromium = spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0;

/** Starts Chromium with additional command line arguments. The caller closes it. */
export function openChromium(args: readonly string[] = []): Promise<Browser> {
  // The sandbox does not start as root, and /dev/shm is small in containers.
  return chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage", ...args] });
}
