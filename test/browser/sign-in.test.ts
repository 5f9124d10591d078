import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { hasChromium } from "../support/browser/chromium.js";
import { noComplaints } from "../support/browser/complaints.js";
import type { DashboardRun, Visit } from "../support/browser/dashboard.js";
import { bestOf, type InteractiveTimes, measureInteractive, writeInteractive } from "../support/browser/interactive.js";
import { takePictures } from "../support/browser/pictures.js";
import { startDashboardOn, storesByTier } from "../support/browser/stores.js";

const password = "correct horse battery";

/** The answer of a service whose store is unavailable. */
const away = { code: "unavailable", message: "The store does not answer." };

let dashboard: DashboardRun;

const signIn = async ({ page }: Visit, text: string): Promise<void> => {
  await page.getByLabel("Administrator password").fill(text);
  await page.getByRole("button", { name: "Sign in" }).click();
};

const isSignedIn = ({ page }: Visit) => page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();

// Needs Debian's Chromium.
describe.skipIf(!hasChromium).each(storesByTier)("sign-in page, state in %s", (store) => {
  beforeAll(async () => {
    dashboard = await startDashboardOn(store);
  });
  afterAll(() => dashboard?.close());

  const setUpLink = () => {
    const { addresses, dashboardPath } = dashboard.service.service;
    return addresses.http + dashboardPath;
  };

  it("the setup link sets the password and signs in, and its token leaves the URL (KEY-20, SEC-21)", async () => {
    const visit = await dashboard.visit();
    const { page, complaints } = visit;
    await page.goto(setUpLink());
    await page.getByLabel("Administrator password").fill(password);
    expect(await page.evaluate(() => window.location.href)).not.toContain("token");
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "setup");
    await page.getByLabel("Confirm password").fill(password);
    await page.getByRole("button", { name: "Set password and sign in" }).click();
    await isSignedIn(visit);
    expect(page.url()).toBe(`${dashboard.service.http}/dashboard/`);
    expect(complaints).toEqual(noComplaints);
    await visit.close();
  });

  it("the setup link works once (KEY-20, SEC-19)", async () => {
    const visit = await dashboard.visit();
    const { page } = visit;
    await page.goto(setUpLink());
    await page.getByLabel("Administrator password").fill("another long password");
    await page.getByLabel("Confirm password").fill("another long password");
    await page.getByRole("button", { name: "Set password and sign in" }).click();
    expect(await page.getByRole("alert").innerText()).toContain("The set-up link is not valid");
    await visit.close();
  });

  it("a setup page without a token accepts one from a link opened in the same tab (KEY-20, SEC-21)", async () => {
    const visit = await dashboard.visit();
    const { page, complaints } = visit;
    await visit.go("setup");
    await page.getByText("This link has no token.").waitFor();
    await page.goto(setUpLink());
    await page.getByLabel("Administrator password").waitFor();
    expect(await page.evaluate(() => window.location.href)).not.toContain("token");
    expect(complaints).toEqual(noComplaints);
    await visit.close();
  });

  it("the password signs in, the cookie is HttpOnly, and signing out invalidates it (SEC-19, KEY-22)", async () => {
    const visit = await dashboard.visit();
    const { page, complaints } = visit;
    await visit.go("keys");
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "sign-in");
    await signIn(visit, password);
    await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
    expect(await page.evaluate(() => document.cookie)).toBe("");
    const cookies = (await page.context().cookies()).toSorted((a, b) => a.name.localeCompare(b.name));
    const flags = { httpOnly: true, sameSite: "Strict", path: "/" };
    expect(cookies).toMatchObject(["uis_browser", "uis_session"].map((name) => ({ name, ...flags })));
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    await page.context().addCookies(cookies);
    await visit.go("keys");
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    expect(complaints).toEqual(noComplaints);
    await visit.close();
  });

  it("an unavailable store shows an error with a retry instead of the sign-in form", async () => {
    const visit = await dashboard.visitSignedIn();
    const { page, complaints } = visit;
    await page.route("**/ListSessions", (route) => route.fulfill({ status: 503, json: away }));
    await visit.go("keys");
    await page.getByRole("alert").getByText(away.message).waitFor();
    expect(await page.getByRole("button", { name: "Sign in" }).count()).toBe(0);
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.unroute("**/ListSessions");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
    expect(complaints).toEqual(noComplaints);
    await visit.close();
  });

  it("a first visitor can sign in and navigate within a second (bound: 5 s)", async () => {
    const times: InteractiveTimes[] = [];
    for (let round = 0; round < 2; round++) {
      const [signedOut, signedIn] = [await dashboard.visit(), await dashboard.visitSignedIn()];
      times.push(await measureInteractive(signedOut.page, signedIn.page, `${dashboard.service.http}/dashboard/`));
      await signedOut.close();
      await signedIn.close();
    }
    writeInteractive(store, times);
    expect(bestOf(times), JSON.stringify(times)).toBeLessThan(5_000);
  });

  it("a page whose code arrives after the code of the next page does not replace that page", async () => {
    const visit = await dashboard.visitSignedIn();
    const { page, complaints } = visit;
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    let held = "";
    await page.route("**/assets/overview-*.js", async (route) => {
      held = route.request().url();
      await released;
      await route.continue();
    });
    await visit.go("");
    await expect.poll(() => held).not.toBe("");
    await page.getByRole("navigation").getByRole("link", { name: "Models" }).click();
    const heading = page.getByRole("heading", { level: 1, name: "Models" });
    await heading.waitFor();
    release();
    // When this import resolves, the dashboard has imported the code, too, because its import began earlier.
    await page.evaluate(`import(${JSON.stringify(held)}).then(() => {})`);
    expect(await heading.isVisible()).toBe(true);
    expect(complaints).toEqual(noComplaints);
    await visit.close();
  });

  it("a failed sign-out shows an error and can be repeated (KEY-22)", async () => {
    const visit = await dashboard.visitSignedIn();
    const { page, complaints } = visit;
    await visit.go("keys");
    await page.route("**/SignOut", (route) => route.fulfill({ status: 503, json: away }));
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.locator(".navigation").getByRole("alert").getByText(away.message).waitFor();
    await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.unroute("**/SignOut");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    expect(complaints).toEqual(noComplaints);
    await visit.close();
  });

  it("wrong passwords are rejected, and the sixth attempt within a minute is throttled (SEC-19, KEY-21)", async () => {
    const own = await startDashboardOn(store, { env: { UIS_ADMIN_PASSWORD: password } });
    onTestFinished(() => own.close());
    const visit = await own.visit();
    const { page } = visit;
    await visit.go("");
    const alert = page.getByRole("alert");
    for (let attempt = 1; attempt <= 5; attempt++) {
      await signIn(visit, `wrong password ${attempt}`);
      await page.getByRole("button", { name: "Sign in", disabled: false }).waitFor();
      expect(await alert.innerText()).toBe("Incorrect password.");
    }
    await signIn(visit, password);
    await alert.getByText("Too many attempts to sign in.").waitFor();
  });
});
