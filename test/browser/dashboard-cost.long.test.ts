import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cpuMs } from "../bench/process-figures.js";
import { hasChromium, openChromium } from "../support/browser/chromium.js";
import { bestOf, type InteractiveTimes, measureInteractive, writeInteractive } from "../support/browser/interactive.js";
import { type ReadyLine, type ServeProcess, spawnServe } from "../support/service-process.js";

const password = "correct horse battery";
/** Length of the measurement, which begins when the work of the service's start is done. */
const windowMs = 30_000;
const settleMs = 3_000;
/** Highest allowed share of one core. */
const shareMax = 0.02;
const interactiveRounds = 5;
/** Longest allowed time of the best round. */
const interactiveMaxMs = 1_000;

let folder: string;
let serve: ServeProcess;
let ready: ReadyLine;
let browser: Browser;

// Needs Debian's Chromium, and a build: without it, compiling the sources would be part of the measurement.
describe.skipIf(!hasChromium)("the dashboard of an idle service", () => {
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

  const url = () => `${new URL(ready.api).origin}/dashboard/`;

  async function signIn(): Promise<Page> {
    const page = await browser.newPage();
    await page.goto(url());
    await page.getByLabel("Administrator password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("Live", { exact: true }).waitFor();
    return page;
  }

  it("lets a first visitor sign in and navigate within a second", async () => {
    const page = await signIn();
    const storageState = await page.context().storageState();
    await page.close();
    const times: InteractiveTimes[] = [];
    for (let round = 0; round < interactiveRounds; round++) {
      const contexts = [await browser.newContext(), await browser.newContext({ storageState })] as const;
      const [signedOut, signedIn] = [await contexts[0].newPage(), await contexts[1].newPage()];
      times.push(await measureInteractive(signedOut, signedIn, url()));
      for (const context of contexts) await context.close();
    }
    writeInteractive("build", times);
    expect(bestOf(times), JSON.stringify(times)).toBeLessThan(interactiveMaxMs);
  });

  it("uses little CPU time while the overview is open", async () => {
    const page = await signIn();
    const share = await measuredShare();
    expect(await page.getByText("Live", { exact: true }).isVisible()).toBe(true);
    expect(share, `${(100 * share).toFixed(2)} % of a core`).toBeLessThan(shareMax);
  });
});
