import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { ask } from "../support/browser/ask.js";
import { hasChromium } from "../support/browser/chromium.js";
import type { DashboardRun, Visit } from "../support/browser/dashboard.js";
import { pressEscapeTwice } from "../support/browser/escape.js";
import { holdAnswers } from "../support/browser/hold-answers.js";
import { keyboardFaults } from "../support/browser/keyboard.js";
import { takePictures } from "../support/browser/pictures.js";
import { startDashboardOn, storesByTier } from "../support/browser/stores.js";
import { visitPage } from "../support/browser/visit-page.js";

const pageSize = 50;

/** Allows for a slow store. */
const eventuallyRead = { timeout: 20_000 };

let dashboard: DashboardRun;
let visit: Visit;

/** A row of the table. */
const row = (text: string) => visit.page.getByRole("row").filter({ hasText: text });
/** A parameter of the URL. */
const queried = (name: string) => new URL(visit.page.url()).searchParams.get(name);
const dialog = () => visit.page.getByRole("dialog");
const shownSecret = () => dialog().locator("code.value").innerText();

async function create(name: string, account: string): Promise<string> {
  await visit.page.getByRole("button", { name: "Create key" }).click();
  await dialog().getByLabel("Name").fill(name);
  await pick("Account", account);
  await dialog().getByRole("button", { name: "Create key" }).click();
  return shownSecret();
}

/** Chooses an action of a key's menu. */
async function act(verb: string, name: string): Promise<void> {
  await visit.page.getByRole("button", { name: `Actions of ${name}`, exact: true }).click();
  await visit.page.getByRole("menuitem", { name: verb, exact: true }).click();
}

/** Types into a picker and selects the match, or the text itself. */
async function pick(label: string, text: string): Promise<void> {
  const field = dialog().getByRole("combobox", { name: label });
  await field.fill(text);
  await field.press("Enter");
}

async function statusWith(secret: string): Promise<number> {
  const headers = { authorization: `Bearer ${secret}` };
  const response = await fetch(`${dashboard.service.api}/models`, { headers });
  await response.text();
  return response.status;
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium).each(storesByTier)("API keys page, state in %s", (store) => {
  beforeAll(async () => {
    dashboard = await startDashboardOn(store);
  });
  afterAll(() => dashboard?.close());

  beforeEach(async () => {
    visit = await visitPage(dashboard, "keys", { permissions: ["clipboard-read", "clipboard-write"] });
  });

  it("a new key is shown and copied once, works, and is rejected after it is revoked (KEY-2, KEY-9)", async () => {
    const { page } = visit;
    const secret = await create("checkout", "shop");
    expect(secret).toMatch(/^sk-uis-/);
    await dialog().getByRole("button", { name: "Copy", exact: true }).click();
    await dialog().getByText("Copied").waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(secret);
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "key-once");
    await dialog().getByRole("button", { name: "Done" }).click();
    await page.reload();
    await row("checkout").waitFor();
    expect(await page.content()).not.toContain(secret);
    expect(await row("checkout").innerText()).toContain(`${secret.slice(0, 10)}…${secret.slice(-4)}`);

    expect(await statusWith(secret)).toBe(200);
    await act("Revoke", "checkout");
    expect(await accessibilityFaults(page)).toEqual([]);
    await dialog().getByRole("button", { name: "Revoke" }).click();
    await row("checkout").getByText("Revoked").waitFor();
    // The focused button was removed: the focus moves to the content, not to the top of the page.
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("content");
    expect(await statusWith(secret)).toBe(401);
  });

  it("a rotated key stays valid together with the new key, whose secret is shown once (KEY-16)", async () => {
    const { page } = visit;
    const old = await create("rotated", "shop");
    await dialog().getByRole("button", { name: "Done" }).click();
    await act("Rotate", "rotated");
    await dialog().getByLabel("Old key expires").selectOption("In 1 hour");
    await dialog().getByRole("button", { name: "Rotate" }).click();
    await dialog().getByText("The old key expires on").waitFor();
    const successor = await shownSecret();
    expect(successor).not.toBe(old);
    expect(await Promise.all([statusWith(old), statusWith(successor)])).toEqual([200, 200]);
    await dialog().getByRole("button", { name: "Done" }).click();
    await row("rotated").getByText("in 60 min").waitFor();
    expect(await page.content()).not.toContain(successor);
  });

  it("Escape does not close the dialog that shows a new key (KEY-2)", async () => {
    const { page } = visit;
    const answer = await holdAnswers(page, "**/*/CreateApiKey");
    await page.getByRole("button", { name: "Create key" }).click();
    await dialog().getByLabel("Name").fill("kept");
    await dialog().getByRole("button", { name: "Create key" }).click();
    await pressEscapeTwice(page);
    expect(await dialog().getByRole("button", { name: "Cancel" }).isDisabled()).toBe(true);
    answer.release();
    const secret = await shownSecret();
    const isRead = () =>
      page.evaluate(() => document.activeElement?.textContent?.includes("This secret is shown only once."));
    await expect.poll(isRead).toBe(true);
    await pressEscapeTwice(page);
    expect(await shownSecret()).toBe(secret);
    expect(await statusWith(secret)).toBe(200);
    expect(await dialog().getByRole("button", { name: "Close" }).isDisabled()).toBe(true);
    expect(await keyboardFaults(page)).toEqual([]);
    await dialog().getByRole("button", { name: "Done" }).click();
    await dialog().waitFor({ state: "detached" });
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("Create key");
  });

  it("Escape closes the dialog again after a rejected request", async () => {
    const { page } = visit;
    await page.getByRole("button", { name: "Create key" }).click();
    await dialog().getByLabel("Name").fill("refused");
    await pick("Account", "Not A Name");
    await dialog().getByRole("button", { name: "Create key" }).click();
    await dialog().getByRole("alert").waitFor();
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
  });

  it("Escape does not close the dialog that shows a rotated key (KEY-16)", async () => {
    const { page } = visit;
    await create("to be rotated", "shop");
    await dialog().getByRole("button", { name: "Done" }).click();
    await act("Rotate", "to be rotated");
    await dialog().getByRole("button", { name: "Rotate" }).click();
    const secret = await shownSecret();
    await pressEscapeTwice(page);
    expect(await shownSecret()).toBe(secret);
  });

  it("the last use of a key refreshes while the page is open (KEY-9)", async () => {
    const { page } = visit;
    const { secret } = await dashboard.service.service.parts.apiKeys.create({
      name: "used later",
      scope: "read_write",
    });
    await page.clock.install();
    await page.reload();
    const lastUsed = row("used later").getByRole("cell").nth(4);
    await expect.poll(() => lastUsed.innerText()).toBe("Never");
    await ask(dashboard.service, "test-chat", secret);
    await expect
      .poll(async () => {
        await page.clock.fastForward(30_000);
        return lastUsed.innerText();
      }, eventuallyRead)
      .not.toBe("Never");
  });

  it("editing a key changes only the edited fields (KEY-8)", async () => {
    const secret = await create("changed", "shop");
    await dialog().getByRole("button", { name: "Done" }).click();
    await act("Edit", "changed");
    await dialog().getByLabel("Name").fill("changed twice");
    await pick("Allowed models", "other-*");
    await dialog().getByLabel("Requests per minute").fill("600");
    await dialog().getByRole("button", { name: "Save" }).click();
    await row("changed twice").getByText("Models: other-* · 600 requests/min").waitFor();
    const models = await fetch(`${dashboard.service.api}/models`, { headers: { authorization: `Bearer ${secret}` } });
    expect(await models.json()).toMatchObject({ data: [] });
  });

  it("every field of a new key is stored and enforced (KEY-8)", async () => {
    const { page } = visit;
    await page.getByRole("button", { name: "Create key" }).click();
    const fields = {
      Name: "bounded",
      "Requests per minute": "600",
      "Tokens per minute": "5000",
      "Max concurrency": "3",
    };
    const field = (label: string) => dialog().getByLabel(label, { exact: true });
    for (const [label, text] of Object.entries(fields)) await field(label).fill(text);
    await pick("Allowed models", "test-chat");
    await pick("Account", "shop");
    await field("Expires").selectOption("On a date…");
    await field("Expires: date and time").fill("2099-01-02T03:04");
    await dialog()
      .getByLabel(/^Read only/)
      .check();
    await dialog().getByRole("button", { name: "Create key" }).click();
    const secret = await shownSecret();
    await dialog().getByRole("button", { name: "Done" }).click();
    await row("bounded")
      .getByText("Models: test-chat · 600 requests/min · 5,000 tokens/min · Max concurrency 3")
      .waitFor();
    await row("bounded").getByText("Read only", { exact: true }).waitFor();

    await act("Edit", "bounded");
    for (const [label, text] of Object.entries({ ...fields, "Expires: date and time": "2099-01-02T03:04" })) {
      expect([label, await field(label).inputValue()]).toEqual([label, text]);
    }
    await dialog().getByRole("button", { name: "Remove test-chat" }).waitFor();
    expect(await ask(dashboard.service, "test-chat", secret)).toBe(403);
    expect(await statusWith(secret)).toBe(200);
  });

  it("a rejected request shows the service's message with the field", async () => {
    await visit.page.getByRole("button", { name: "Create key" }).click();
    await dialog().getByLabel("Name").fill("bad");
    await pick("Account", "Not A Name");
    await dialog().getByRole("button", { name: "Create key" }).click();
    expect(await dialog().getByRole("alert").innerText()).toMatch(/^'account' must be/);
    expect(await dialog().getByRole("combobox", { name: "Account" }).getAttribute("aria-invalid")).toBe("true");
  });

  it("the name of a key is shown as text (SEC-21)", async () => {
    const name = `<img src=x onerror="alert(1)"><script>alert(2)</script>`;
    await create(name, "shop");
    await dialog().getByRole("button", { name: "Done" }).click();
    expect(await row("onerror").locator("strong").innerText()).toBe(name);
  });

  it("a long list is paged and filtered by the service, and the keyboard reaches every action", async () => {
    const { page } = visit;
    const { apiKeys } = dashboard.service.service.parts;
    for (let index = 0; index < pageSize + 10; index++) {
      await apiKeys.create({ name: `many ${index}`, scope: "read", account: "many" });
    }
    await page.getByRole("combobox", { name: "Account" }).fill("many");
    await page.keyboard.press("Enter");
    await expect.poll(() => queried("account")).toBe("many");
    await row(`many ${pageSize + 9}`).waitFor();
    expect(await page.getByRole("row").count()).toBe(1 + pageSize);
    await page.getByRole("button", { name: "Next page" }).click();
    await row("many 0").waitFor();
    expect(await page.getByRole("row").count()).toBe(1 + 10);
    expect(queried("account")).toBe("many");
    await page.getByRole("button", { name: "Previous page" }).click();
    await row(`many ${pageSize + 9}`).waitFor();
    await page.goBack();
    await row("many 0").waitFor();

    await page.getByRole("searchbox").fill("MANY 7");
    await expect.poll(() => queried("search")).toBe("MANY 7");
    await expect.poll(() => page.getByRole("row").count()).toBe(2);
    await row("many 7").waitFor();
    await page.getByLabel("Status").selectOption("Revoked");
    await page.getByText("No keys match this filter.").waitFor();
    await page.reload();
    await page.getByText("No keys match this filter.").waitFor();
    expect(await page.getByRole("searchbox").inputValue()).toBe("MANY 7");
    await page.getByLabel("Status").selectOption("All");
    await row("many 7").waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "keys-search");
    expect(await keyboardFaults(page)).toEqual([]);
  });

  it("every part of the page is accessible and reachable by keyboard", async () => {
    const { page } = visit;
    await visit.go("keys?account=default");
    await row("test-read").waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "keys");
    await page.getByRole("button", { name: "Create key" }).focus();
    await page.keyboard.press("Enter");
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    await takePictures(page, "key-new");
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Create key");
  });
});
