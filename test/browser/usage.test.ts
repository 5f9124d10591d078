import { readFile } from "node:fs/promises";
import type { Locator } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { ask } from "../support/browser/ask.js";
import { hasChromium } from "../support/browser/chromium.js";
import type { DashboardRun, Visit } from "../support/browser/dashboard.js";
import { keyboardFaults } from "../support/browser/keyboard.js";
import { takePictures } from "../support/browser/pictures.js";
import { startDashboardOn, storesByTier } from "../support/browser/stores.js";
import { visitPage } from "../support/browser/visit-page.js";
import { eventually } from "../support/eventually.js";

const formula = '=HYPERLINK("http://x.test","a")';

/** Allows for a slow store. */
const eventuallyRead = { timeout: 20_000 };

let dashboard: DashboardRun;
let visit: Visit;
let formulaKey: string;

const dialog = () => visit.page.getByRole("dialog");
const thresholds = () => visit.page.getByRole("region", { name: "Thresholds and budgets" });
/** Shows an account that the picker does not offer. */
async function showAccount(account: string): Promise<void> {
  const picker = visit.page.getByRole("combobox", { name: "Account" });
  await picker.fill(account);
  await picker.press("Enter");
}

const appliesTo = () => dialog().getByRole("combobox", { name: "Applies to" });
const threshold = (title: string) => thresholds().getByRole("row").filter({ hasText: title });

async function addThreshold(fill: () => Promise<unknown>): Promise<void> {
  await thresholds().getByRole("button", { name: "Add threshold" }).click();
  await fill();
  await dialog().getByRole("button", { name: "Add threshold" }).click();
  await dialog().waitFor({ state: "detached" });
}

async function closeForm(): Promise<void> {
  await dialog().getByRole("button", { name: "Cancel" }).click();
  await dialog().waitFor({ state: "detached" });
}

/** Why the browser rejects the input's value; empty if it accepts it. */
const validationOf = (input: Locator): Promise<string> =>
  input.evaluate((element: HTMLInputElement) => element.validationMessage);

// Needs Debian's Chromium.
describe.skipIf(!hasChromium).each(storesByTier)("usage page, state in %s", (store) => {
  beforeAll(async () => {
    dashboard = await startDashboardOn(store);
    const { apiKeys, status } = dashboard.service.service.parts;
    formulaKey = (await apiKeys.create({ name: formula, scope: "read_write" })).secret;
    await ask(dashboard.service, "test-chat");
    await ask(dashboard.service, "test-chat", formulaKey);
    // A slow store records both requests a moment later.
    await eventually(async () => (await status.read()).state?.spooled === 0n, "both requests are counted", 20_000);
  });
  afterAll(() => dashboard?.close());

  beforeEach(async () => {
    visit = await visitPage(dashboard, "usage");
  });

  it("shows usage by model and by key, as a chart and tables of the same numbers", async () => {
    const { page } = visit;
    const totals = page.getByRole("table", { name: "Totals" });
    await totals.getByRole("row", { name: /^test-chat 2 / }).waitFor();
    await page
      .getByRole("img", { name: /^Tokens over time/ })
      .locator("canvas")
      .waitFor();
    await page.getByLabel("Group by").selectOption("API key");
    await totals.getByRole("row").filter({ hasText: formula }).waitFor();
    expect(page.url()).toContain("by=key");
    await page.getByLabel("Group by").selectOption("Operation");
    await totals.getByRole("row", { name: /^chat 2 / }).waitFor();
    await page.getByLabel("Time range").selectOption("Last 24 hours");
    await page.getByRole("columnheader", { name: "Hour", exact: true }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    await takePictures(page, "usage");
  });

  it("shows how to send a first request for an unused account", async () => {
    await showAccount("nobody");
    await visit.page.getByText("No usage in this time range.").waitFor();
  });

  it("links keep the account, also after pages that show all accounts, until the user chooses another", async () => {
    const { page } = visit;
    const follow = async (name: string): Promise<void> => {
      await page.getByRole("navigation").getByRole("link", { name }).click();
      await page.getByRole("heading", { level: 1, name }).waitFor();
    };
    await showAccount("nobody");
    await follow("Models");
    await follow("Webhooks");
    await page.getByText("The account “nobody” has no endpoints yet.").waitFor();
    expect(new URL(page.url()).searchParams.get("account")).toBe("nobody");
    await showAccount("default");
    await follow("Usage");
    await page.getByRole("table", { name: "Totals" }).waitFor();
    expect(new URL(page.url()).searchParams.has("account")).toBe(false);
  });

  it("shows an error instead of the previous account's usage when loading fails", async () => {
    const { page } = visit;
    await page.getByRole("button", { name: "Download CSV" }).waitFor();
    const away = { code: "unavailable", message: "The store does not answer." };
    await page.route("**/QueryUsage", (route) => route.fulfill({ status: 503, json: away }));
    await showAccount("nobody");
    await page.getByRole("alert").getByText(away.message).waitFor();
    expect(await page.getByRole("button", { name: "Download CSV" }).count()).toBe(0);
    expect(await page.getByRole("table", { name: "Totals" }).count()).toBe(0);
    await page.unroute("**/QueryUsage");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("No usage in this time range.").waitFor();
  });

  it("refreshes while the page is open", async () => {
    const { page } = visit;
    const { apiKeys } = dashboard.service.service.parts;
    const { secret } = await apiKeys.create({ name: "fresh", scope: "read_write", account: "fresh" });
    await page.clock.install();
    await visit.go("usage?account=fresh");
    await page.getByText("No usage in this time range.").waitFor();
    await ask(dashboard.service, "test-chat", secret);
    const used = page.getByRole("table", { name: "Totals" }).getByRole("row", { name: /^test-chat 1 / });
    await expect
      .poll(async () => {
        await page.clock.fastForward(30_000);
        return used.count();
      }, eventuallyRead)
      .toBe(1);
  });

  it("exports CSV in which a spreadsheet reads a name like a formula as text (SEC-21)", async () => {
    const { page } = visit;
    await visit.go("usage?by=key");
    const saving = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download CSV" }).click();
    const file = await saving;
    expect(file.suggestedFilename()).toBe("usage-default-7d.csv");
    const [head, ...rows] = (await readFile(await file.path(), "utf8")).trimEnd().split("\r\n");
    expect(head).toBe(
      "start_time,end_time,model,api_key_id,api_key_name,requests,prompt_tokens,completion_tokens,cached_tokens," +
        "cost_nano_dollars,operation",
    );
    expect(rows).toHaveLength(2);
    expect(rows.find((row) => row.includes("HYPERLINK"))).toMatch(
      /Z,,key_\w{24},"'=HYPERLINK\(""http:\/\/x\.test"",""a""\)",1,\d+,\d+,0,0,$/,
    );
  });

  it("a threshold is added, reached, edited and deleted (USE-4)", async () => {
    const { page } = visit;
    await addThreshold(async () => {
      await dialog().getByLabel("Metric").selectOption("Requests");
      await dialog().getByLabel("Limit (requests)").fill("4");
      expect(await accessibilityFaults(page)).toEqual([]);
      await takePictures(page, "usage-threshold");
    });
    const row = threshold("4 requests per month (UTC)");
    await row.getByText("50 % reached").waitFor();
    expect(await row.getByRole("progressbar").getAttribute("value")).toBe("0.5");
    await ask(dashboard.service, "test-chat");
    await ask(dashboard.service, "test-chat");
    await row.getByText("Limit reached").waitFor();
    await row.getByText("4 requests, 100 %").waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "usage-reached");

    await row.getByRole("button", { name: "Actions of " }).click();
    await page.getByRole("menuitem", { name: "Edit" }).click();
    await dialog().getByLabel("Limit (requests)").fill("100");
    await dialog().getByLabel("Notify at (%)").fill("90, 10");
    await dialog().getByRole("button", { name: "Save" }).click();
    const changed = threshold("100 requests per month (UTC)");
    await changed.getByText("Below 10 %").waitFor();
    await changed.getByText("Notify at 10, 90 %").waitFor();

    await changed.getByRole("button", { name: "Actions of " }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await dialog().getByRole("button", { name: "Delete" }).click();
    await thresholds().getByText("No thresholds yet.").waitFor();
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("Thresholds and budgets");
  });

  it("a budget of one key rejects requests of that key only (USE-4)", async () => {
    await addThreshold(async () => {
      await appliesTo().fill(formula);
      await appliesTo().press("Enter");
      await dialog().getByLabel("Limit (tokens)").fill("1");
      await dialog().getByLabel("Action").selectOption("Notify, and reject requests over the limit");
    });
    await threshold("1 token per month (UTC)").getByText("Limit reached: rejecting requests").waitFor();
    expect(await ask(dashboard.service, "test-chat", formulaKey)).toBe(429);
    expect(await ask(dashboard.service, "test-chat")).toBe(200);
  });

  it("a key that is typed before the keys are loaded is selected when they are (USE-4)", async () => {
    const { page } = visit;
    let sendKeys = (): void => {};
    const keysAreSent = new Promise<void>((resolve) => {
      sendKeys = resolve;
    });
    await page.route("**/unified.admin.v1.ApiKeyService/ListApiKeys", async (route) => {
      await keysAreSent;
      await route.continue();
    });
    await page.reload();
    await thresholds().getByRole("button", { name: "Add threshold" }).click();
    await appliesTo().fill(formula);
    await appliesTo().press("Enter");
    await dialog().getByLabel("Limit (tokens)").fill("5");
    await dialog().getByRole("button", { name: "Add threshold" }).click();
    expect(await validationOf(appliesTo())).toBe("The list is still loading.");
    sendKeys();
    await expect.poll(() => appliesTo().inputValue()).toBe(`Key: ${formula}`);
    expect(await validationOf(appliesTo())).toBe("");
    await closeForm();
  });

  it("the form of a threshold is not sent with a text that is no key of the account (USE-4)", async () => {
    await thresholds().getByRole("button", { name: "Add threshold" }).click();
    await appliesTo().fill("no such key");
    await dialog().getByLabel("Limit (tokens)").fill("5");
    await dialog().getByRole("button", { name: "Add threshold" }).click();
    expect(await validationOf(appliesTo())).toBe("Select a value from the list.");
    await closeForm();
  });

  it("a revoked key cannot get a threshold (USE-4)", async () => {
    const { apiKeys } = dashboard.service.service.parts;
    const { record } = await apiKeys.create({ name: "revoked key", scope: "read" });
    await apiKeys.revoke(record.id);
    await visit.page.reload();
    await thresholds().getByRole("button", { name: "Add threshold" }).click();
    await appliesTo().click();
    const options = dialog().getByRole("option");
    await options.filter({ hasText: "HYPERLINK" }).waitFor({ state: "attached" });
    expect((await options.allInnerTexts()).join()).not.toContain("revoked key");
  });

  it("an invalid limit shows a message", async () => {
    await thresholds().getByRole("button", { name: "Add threshold" }).click();
    await dialog().getByLabel("Limit (tokens)").fill("many");
    await dialog().getByRole("button", { name: "Add threshold" }).click();
    await dialog().getByText("The limit must be a whole number greater than 0.").waitFor();
    await visit.page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
  });
});
