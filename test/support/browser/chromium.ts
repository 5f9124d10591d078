import { spawnSync } from "node:child_process";
import { type Browser, chromium } from "playwright-core";

const program = "/usr/bin/chromium";

/** Whether there is the browser that these tests need: Debian's package chromium. */
export const hasChromium = spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0;

/** `args`: further arguments of its command line. The caller closes it. */
export function openChromium(args: readonly string[] = []): Promise<Browser> {
  // Tests often run as root, for whom the sandbox does not start; and /dev/shm is small in containers.
  return chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage", ...args] });
}
