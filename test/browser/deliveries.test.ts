import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { hasChromium } from "../support/browser/chromium.js";
import type { DashboardRun, Visit } from "../support/browser/dashboard.js";
import { keyboardFaults } from "../support/browser/keyboard.js";
import { takePictures } from "../support/browser/pictures.js";
import { startDashboardOn, storesByTier } from "../support/browser/stores.js";
import { visitPage } from "../support/browser/visit-page.js";
import { type Receiver, startReceiver } from "../support/receivers/receiver.js";

/** Longer than the page's refresh interval of 2 s. */
const slowAnswerMs = 2_500;
/** Long enough for a test to work with deliveries that await their retry, also on a slow machine. */
const retryDelayMs = 15_000;

let dashboard: DashboardRun;
let receiver: Receiver;
let visit: Visit;

const dialog = () => visit.page.getByRole("dialog");
const badge = (state: string) => visit.page.locator(".badge").getByText(state, { exact: true });

const tab = (name: string) => visit.page.getByRole("navigation", { name: "Status" }).getByRole("link", { name });

/** Types into a picker of the dialog and takes the only match. */
async function pick(label: string, text: string): Promise<void> {
  const field = dialog().getByRole("combobox", { name: label });
  await field.fill(text);
  await dialog().getByRole("option").filter({ hasText: text }).waitFor();
  await field.press("Enter");
}

async function makeEvent(key = dashboard.service.key): Promise<void> {
  const { api } = dashboard.service;
  const response = await fetch(`${api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "test-chat", messages: [{ role: "user", content: "Hi" }] }),
  });
  await response.text();
}

async function addEndpoint(key = dashboard.service.key): Promise<string> {
  const { api } = dashboard.service;
  const response = await fetch(`${api}/webhooks`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ url: receiver.url, events: ["request.completed"] }),
  });
  expect(response.status).toBe(200);
  return ((await response.json()) as { id: string }).id;
}

/** Creates a key of the account and an endpoint for its events. */
async function startAccount(account: string): Promise<{ readonly key: string; readonly endpointId: string }> {
  const { apiKeys } = dashboard.service.service.parts;
  const { secret: key } = await apiKeys.create({ name: account, scope: "read_write", account });
  return { key, endpointId: await addEndpoint(key) };
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium).each(storesByTier)("deliveries page, state in %s", (store) => {
  beforeAll(async () => {
    receiver = await startReceiver();
    const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"], retry_delays: [`${retryDelayMs}ms`] };
    dashboard = await startDashboardOn(store, { config: { webhooks } });
    await addEndpoint();
  });
  afterAll(async () => {
    await dashboard?.close();
    await receiver?.close();
  });

  beforeEach(async () => {
    visit = await visitPage(dashboard, "deliveries");
  });

  it("an empty list explains how deliveries are created (WH-45)", async () => {
    await visit.page.getByText("No deliveries yet.").waitFor();
  });

  it("a failing delivery shows each of its states, and a manual retry delivers it (WH-29, WH-45, WH-46)", async () => {
    const { page } = visit;
    receiver.answerWith({ status: 500, body: "<script>alert(1)</script>", afterMs: slowAnswerMs });
    await makeEvent();
    for (const state of ["Delivery attempted", "Awaiting retry", "Delivery attempted", "Permanently failed"]) {
      await badge(state).waitFor({ timeout: 2 * retryDelayMs });
    }
    await page.getByText("All retries failed").waitFor();
    await page.getByRole("link", { name: /^request\.completed, delivery dlv_/ }).click();
    await page.getByText("Response body").first().click();
    expect(await page.locator("td pre").first().innerText()).toBe("<script>alert(1)</script>");
    await page.getByText("Request headers").first().click();
    const signature = receiver.requests[0]?.headers["service-signature"];
    expect(await page.locator("td .code-block pre").first().innerText()).toContain(`service-signature: ${signature}`);
    expect(await page.locator("main").innerText()).toContain('"type": "request.completed"');
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "delivery-failed");

    receiver.answerWith({ status: 200 });
    await page.getByRole("button", { name: "Retry now" }).click();
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "delivery-retry");
    await dialog().getByRole("button", { name: "Retry now" }).click();
    await badge("Delivered").waitFor();
    expect(await page.getByRole("row").count()).toBe(1 + 3);
    expect(await page.getByRole("row").last().innerText()).toContain("Manual");
    expect(receiver.requests).toHaveLength(3);
  });

  it("a successful delivery is resent only after confirmation (WH-47)", async () => {
    const { page } = visit;
    const before = receiver.requests.length;
    await page.getByRole("link", { name: /^request\.completed, delivery dlv_/ }).click();
    await page.getByRole("button", { name: "Resend" }).click();
    await dialog().getByText("This delivery succeeded.").waitFor();
    expect(receiver.requests).toHaveLength(before);
    await dialog().getByRole("button", { name: "Resend" }).click();
    await receiver.until(before + 1);
  });

  it("the filter is kept in the URL and survives a reload (WH-45)", async () => {
    const { page } = visit;
    await tab("Delivered 1").click();
    await badge("Delivered").waitFor();
    expect(new URL(page.url()).searchParams.get("state")).toBe("delivered");
    await page.getByLabel("Event type").selectOption("request.failed");
    await page.getByText("No deliveries match this filter.").waitFor();
    await page.reload();
    await page.getByText("No deliveries match this filter.").waitFor();
    expect(await tab("Delivered 0").getAttribute("aria-current")).toBe("page");
    expect(await page.getByLabel("Event type").inputValue()).toBe("request.failed");
    await page.getByRole("button", { name: "Clear" }).click();
    await badge("Delivered").waitFor();
  });

  it("a time range is replayed, and repeating the call shows the progress (WH-48)", async () => {
    const { page } = visit;
    const before = receiver.requests.length;
    await page.getByRole("button", { name: "Replay deliveries" }).click();
    await pick("Endpoint", receiver.url);
    await dialog().getByLabel("Created from").fill("2020-01-01T00:00");
    await dialog().getByText("Include delivered ones.").click();
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "replay");
    await dialog().getByRole("button", { name: "Replay", exact: true }).click();
    await dialog().getByText("1 queued now.").waitFor();
    await receiver.until(before + 1);
    await dialog().getByRole("button", { name: "Refresh" }).click();
    await dialog().getByText("0 queued now. Whole replay: 1 delivered").waitFor();
    await dialog().getByRole("link", { name: "Show deliveries" }).click();
    await dialog().waitFor({ state: "detached" });
    expect(new URL(page.url()).searchParams.get("replay")).toMatch(/^rpl_/);
  });

  it("selected deliveries are retried together, and the rejected ones counted (WH-46)", async () => {
    const { page } = visit;
    receiver.answerWith({ status: 500 });
    await Promise.all([makeEvent(), makeEvent()]);
    await expect.poll(() => badge("Awaiting retry").count()).toBe(2);
    await page.getByLabel("Select all 2 on this page that can be retried").check();
    receiver.answerWith({ status: 200 });
    await page.getByRole("button", { name: "Retry 2 selected" }).click();
    expect(await accessibilityFaults(page)).toEqual([]);
    await dialog().getByRole("button", { name: "Retry now" }).click();
    await dialog().getByText("2 queued, 0 rejected.").waitFor();
    await dialog().getByRole("button", { name: "Done" }).click();
    await expect.poll(() => badge("Awaiting retry").count()).toBe(0);
  });

  it("every part of the page is accessible and reachable by keyboard", async () => {
    const { page } = visit;
    receiver.answerWith({ status: 500 });
    await makeEvent();
    await badge("Awaiting retry").waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "deliveries");
    expect(await keyboardFaults(page)).toEqual([]);
  });

  it("the replay dialog offers the endpoints of every account (WH-48)", async () => {
    const { page } = visit;
    const { key } = await startAccount("branch");
    receiver.answerWith({ status: 200 });
    const before = receiver.requests.length;
    await makeEvent(key);
    await receiver.until(before + 1);
    await page.getByRole("button", { name: "Replay deliveries" }).click();
    await pick("Endpoint", "branch");
    await dialog().getByLabel("Created from").fill("2020-01-01T00:00");
    await dialog().getByText("Include delivered ones.").click();
    await dialog().getByRole("button", { name: "Replay", exact: true }).click();
    await dialog().getByText("1 queued now.").waitFor();
  });

  it("a retry that cannot succeed is not offered, and a disabled endpoint must be enabled first (WH-46)", async () => {
    const { page } = visit;
    const { key, endpointId } = await startAccount("closing");
    receiver.answerWith({ status: 500 });
    await makeEvent(key);
    await visit.go("webhooks?account=closing");
    await page.getByRole("button", { name: "Actions of " }).click();
    await page.getByRole("menuitem", { name: "Disable" }).click();
    await dialog().getByRole("button", { name: "Disable" }).click();
    await dialog().waitFor({ state: "detached" });

    await visit.go("deliveries?account=closing");
    await badge("Permanently failed").waitFor();
    await page.getByRole("button", { name: "Actions of " }).click();
    await page.getByRole("menuitem", { name: "Retry now" }).click();
    await dialog().getByText("The endpoint is disabled.").waitFor();
    expect(await dialog().getByRole("button", { name: "Retry now" }).count()).toBe(0);
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    await dialog().getByRole("link", { name: "Enable the endpoint first" }).click();
    await dialog().waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Actions of " }).click();
    await page.getByRole("menuitem", { name: "Enable" }).click();
    await dialog().getByRole("button", { name: "Enable" }).click();
    await dialog().waitFor({ state: "detached" });

    const before = receiver.requests.length;
    await makeEvent(key);
    await receiver.until(before + 1);
    const { api } = dashboard.service;
    await fetch(`${api}/webhooks/${endpointId}`, { method: "DELETE", headers: { authorization: `Bearer ${key}` } });
    await visit.go("deliveries?account=closing");
    await page.getByText("Endpoint deleted").waitFor();
    expect(await page.getByRole("checkbox", { name: /^Select dlv_/, disabled: false }).count()).toBe(1);
    await page.getByRole("row").filter({ hasText: "Endpoint disabled" }).getByRole("button").click();
    await page.getByRole("menuitem", { name: "Retry now" }).click();
    await dialog().getByText("The endpoint was deleted, so this delivery cannot be sent.").waitFor();
  });
});
