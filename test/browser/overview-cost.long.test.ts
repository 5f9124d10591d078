import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cpuMs } from "../bench/process-figures.js";
import { hasChromium, openChromium } from "../support/browser/chromium.js";
import { type ReadyLine, type ServeProcess, spawnServe } from "../support/service-process.js";

const password = "correct horse battery";
/** Measured after the start's own work is done. */
const windowMs = 30_000;
const settleMs = 3_000;
/** Share of one core. */
const shareMax = 0.02;

let folder: string;
let serve: ServeProcess;
let ready: ReadyLine;
let browser: Browser;

// Needs Debian's Chromium, and a build: the sources would be compiled while they are measured.
describe.skipIf(!hasChromium)("an open overview page", () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uis-cost-"));
    const command = [process.execPath, join(process.cwd(), "dist/app/cli.js"), "serve"];
    serve = spawnServe({ cwd: folder, command, env: { UIS_ADMIN_PASSWORD: password, LOG_LEVEL: "error" } });
    ready = await serve.ready;
    browser = await openChromium();
  });
  afterAll(async () => {
    await browser?.close();
    serve?.child.kill("SIGKILL");
    await serve?.exited;
    await rm(folder, { recursive: true, force: true });
  });

  /** Share of a core that the service's process uses. */
  async function measuredShare(): Promise<number> {
    const { pid = 0 } = serve.child;
    await delay(settleMs);
    const [beforeMs, sinceMs] = [cpuMs(pid), performance.now()];
    await delay(windowMs);
    return (cpuMs(pid) - beforeMs) / (performance.now() - sinceMs);
  }

  it("costs an idle service little CPU time", async () => {
    const page = await browser.newPage();
    await page.goto(`${new URL(ready.api).origin}/dashboard/`);
    await page.getByLabel("Administrator password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("Live", { exact: true }).waitFor();
    const share = await measuredShare();
    expect(await page.getByText("Live", { exact: true }).isVisible()).toBe(true);
    expect(share, `${(100 * share).toFixed(2)} % of a core`).toBeLessThan(shareMax);
  });
});
