import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { hasChromium } from "../support/browser/chromium.js";
import type { DashboardRun, Visit } from "../support/browser/dashboard.js";
import { keyboardFaults } from "../support/browser/keyboard.js";
import { takePictures } from "../support/browser/pictures.js";
import { startDashboardOn, storesByTier } from "../support/browser/stores.js";
import { visitPage } from "../support/browser/visit-page.js";

const password = "correct horse battery";
const nextPassword = "another horse battery";

let dashboard: DashboardRun;

function visitAudit(): Promise<Visit> {
  return visitPage(dashboard, "audit");
}

/** Signed out, a page asks for the password. */
const isSignedOut = ({ page }: Visit) => page.getByRole("button", { name: "Sign in" }).waitFor();

/** A store may be slow. */
const eventuallyRead = { timeout: 20_000 };

const focusedText = (page: Page) => page.evaluate(() => document.activeElement?.textContent);

// Needs Debian's Chromium.
describe.skipIf(!hasChromium).each(storesByTier)("audit and sessions in a browser, state in %s", (store) => {
  beforeAll(async () => {
    dashboard = await startDashboardOn(store, { env: { UIS_ADMIN_PASSWORD: password } });
  });
  afterAll(() => dashboard?.close());

  it("what an administrator does is listed with who, from where, what and its details (KEY-23, SEC-30)", async () => {
    const { page } = await visitAudit();
    await page.getByRole("link", { name: "API Keys" }).click();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByLabel("Name").fill("audited");
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    const secret = await page.locator("code.value").innerText();
    await page.getByRole("dialog").getByRole("button", { name: "Done" }).click();
    await page.getByRole("link", { name: "Audit" }).click();
    const record = page.getByRole("row").filter({ hasText: "api_key.create" }).first();
    await record.getByText(/details$/).click();
    expect(await record.innerText()).toMatch(/session from 127\.0\.0\.1[\s\S]*key_[\s\S]*ok[\s\S]*audited/);
    expect(await page.content()).not.toContain(secret);
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "audit");
    expect(await keyboardFaults(page)).toEqual([]);
  });

  it("a session is ended from another one (KEY-22)", async () => {
    const stolen = await visitAudit();
    await stolen.page.getByText("this one").waitFor();
    const { page } = await visitAudit();
    const others = page.getByRole("button", { name: "End the session from 127.0.0.1" });
    await others.first().click();
    await page.getByRole("dialog").getByRole("button", { name: "End" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expect.poll(() => focusedText(page)).toBe("Who is signed in");
    await stolen.page.reload();
    await isSignedOut(stolen);
  });

  it("who is signed in and what was done are read again while the page is open (KEY-22, KEY-23)", async () => {
    const { page, go } = await visitPage(dashboard, null);
    await page.clock.install();
    await go("audit");
    await page.getByText("this one").waitFor();
    const ends = page.getByRole("button", { name: "End the session" });
    const acts = page.getByRole("row").filter({ hasText: "api_key.create" });
    await acts.first().waitFor();
    const [endsBefore, actsBefore] = [await ends.count(), await acts.count()];
    const later = await visitPage(dashboard, null);
    await later.go("keys");
    await later.page.getByRole("button", { name: "Create key" }).click();
    await later.page.getByLabel("Name").fill("made meanwhile");
    await later.page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    await later.page.locator("code.value").waitFor();
    await expect
      .poll(async () => {
        await page.clock.fastForward(30_000);
        return [await ends.count(), await acts.count()];
      }, eventuallyRead)
      .toEqual([endsBefore + 1, actsBefore + 1]);
  });

  it("a wrong password as it is changes nothing and ends no session (SEC-19)", async () => {
    const { page } = await visitAudit();
    await page.getByRole("button", { name: "Change password" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Password as it is").fill("not this password");
    await dialog.getByLabel("New password").fill(nextPassword);
    await dialog.getByLabel("The same again").fill(nextPassword);
    await dialog.getByRole("button", { name: "Change password" }).click();
    await dialog.getByText("The password is not right.", { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("this one").waitFor();
  });

  it("a session that has ended meanwhile cannot change the password and is asked to sign in (SEC-19)", async () => {
    const visit = await visitAudit();
    const { page } = visit;
    await page.getByRole("button", { name: "Change password" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Password as it is").fill(password);
    await dialog.getByLabel("New password").fill(nextPassword);
    await dialog.getByLabel("The same again").fill(nextPassword);
    await page.context().clearCookies();
    await dialog.getByRole("button", { name: "Change password" }).click();
    await isSignedOut(visit);
  });

  it("another password ends all other sessions and is the one that signs in (SEC-19)", async () => {
    const other = await visitAudit();
    await other.page.getByText("this one").waitFor();
    const { page } = await visitAudit();
    await page.getByRole("button", { name: "Change password" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Password as it is").fill(password);
    await dialog.getByLabel("New password").fill(nextPassword);
    await dialog.getByLabel("The same again").fill("not the same text");
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "change-password");
    await dialog.getByRole("button", { name: "Change password" }).click();
    await dialog.getByText("The two passwords are not the same.").waitFor();
    await dialog.getByLabel("The same again").fill(nextPassword);
    await dialog.getByRole("button", { name: "Change password" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByText("this one").waitFor();
    await other.page.reload();
    await isSignedOut(other);
    await other.page.getByLabel("Password of the administrator").fill(nextPassword);
    await other.page.getByRole("button", { name: "Sign in" }).click();
    await other.page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
  });
});
