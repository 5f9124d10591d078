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

/** Waits until the page shows the sign-in form, as every signed-out page does. */
const isSignedOut = ({ page }: Visit) => page.getByRole("button", { name: "Sign in" }).waitFor();

/** Allows for a slow store. */
const eventuallyRead = { timeout: 20_000 };

const focusedText = (page: Page) => page.evaluate(() => document.activeElement?.textContent);

// Needs Debian's Chromium.
describe.skipIf(!hasChromium).each(storesByTier)("audit page, state in %s", (store) => {
  beforeAll(async () => {
    dashboard = await startDashboardOn(store, { env: { UIS_ADMIN_PASSWORD: password } });
  });
  afterAll(() => dashboard?.close());

  it("the audit log lists actor, address, action and details (KEY-23, SEC-30)", async () => {
    const { page } = await visitAudit();
    await page.getByRole("link", { name: "API keys" }).click();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByLabel("Name").fill("audited");
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    const secret = await page.locator("code.value").innerText();
    await page.getByRole("dialog").getByRole("button", { name: "Done" }).click();
    await page.getByRole("link", { name: "Audit" }).click();
    const record = page.getByRole("row").filter({ hasText: "api_key.create" }).first();
    await record.getByText(/details$/).click();
    expect(await record.innerText()).toMatch(/Session from 127\.0\.0\.1[\s\S]*key_[\s\S]*OK[\s\S]*audited/);
    expect(await page.content()).not.toContain(secret);
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "audit");
    expect(await keyboardFaults(page)).toEqual([]);
  });

  it("a session can be revoked from another session (KEY-22)", async () => {
    const stolen = await visitAudit();
    await stolen.page.getByText("This session").waitFor();
    const { page } = await visitAudit();
    const others = page.getByRole("button", { name: "Revoke session from 127.0.0.1" });
    await others.first().click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expect.poll(() => focusedText(page)).toBe("Active sessions");
    await stolen.page.reload();
    await isSignedOut(stolen);
  });

  it("sessions and audit log refresh while the page is open (KEY-22, KEY-23)", async () => {
    const { page, go } = await visitPage(dashboard, null);
    await page.clock.install();
    await go("audit");
    await page.getByText("This session").waitFor();
    const revokes = page.getByRole("button", { name: "Revoke session" });
    const records = page.getByRole("row").filter({ hasText: "api_key.create" });
    await records.first().waitFor();
    const [revokesBefore, recordsBefore] = [await revokes.count(), await records.count()];
    const later = await visitPage(dashboard, null);
    await later.go("keys");
    await later.page.getByRole("button", { name: "Create key" }).click();
    await later.page.getByLabel("Name").fill("made meanwhile");
    await later.page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    await later.page.locator("code.value").waitFor();
    await expect
      .poll(async () => {
        await page.clock.fastForward(30_000);
        return [await revokes.count(), await records.count()];
      }, eventuallyRead)
      .toEqual([revokesBefore + 1, recordsBefore + 1]);
  });

  it("a wrong current password changes nothing and ends no session (SEC-19)", async () => {
    const { page } = await visitAudit();
    await page.getByRole("button", { name: "Change password" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Current password").fill("not this password");
    await dialog.getByLabel("New password").fill(nextPassword);
    await dialog.getByLabel("Confirm password").fill(nextPassword);
    await dialog.getByRole("button", { name: "Change password" }).click();
    await dialog.getByText("Incorrect password.", { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("This session").waitFor();
  });

  it("an ended session cannot change the password, and the page shows the sign-in form (SEC-19)", async () => {
    const visit = await visitAudit();
    const { page } = visit;
    await page.getByRole("button", { name: "Change password" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Current password").fill(password);
    await dialog.getByLabel("New password").fill(nextPassword);
    await dialog.getByLabel("Confirm password").fill(nextPassword);
    await page.context().clearCookies();
    await dialog.getByRole("button", { name: "Change password" }).click();
    await isSignedOut(visit);
  });

  it("changing the password ends all other sessions, and the new password signs in (SEC-19)", async () => {
    const other = await visitAudit();
    await other.page.getByText("This session").waitFor();
    const { page } = await visitAudit();
    await page.getByRole("button", { name: "Change password" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Current password").fill(password);
    await dialog.getByLabel("New password").fill(nextPassword);
    await dialog.getByLabel("Confirm password").fill("not the same text");
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "change-password");
    await dialog.getByRole("button", { name: "Change password" }).click();
    await dialog.getByText("The passwords do not match.").waitFor();
    await dialog.getByLabel("Confirm password").fill(nextPassword);
    await dialog.getByRole("button", { name: "Change password" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByText("This session").waitFor();
    await other.page.reload();
    await isSignedOut(other);
    await other.page.getByLabel("Administrator password").fill(nextPassword);
    await other.page.getByRole("button", { name: "Sign in" }).click();
    await other.page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
  });
});
