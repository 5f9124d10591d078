import type { Locator } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { verifyWebhook } from "../../src/lib/webhook-signature.js";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { hasChromium } from "../support/browser/chromium.js";
import type { DashboardRun, Visit } from "../support/browser/dashboard.js";
import { pressEscapeTwice } from "../support/browser/escape.js";
import { holdAnswers } from "../support/browser/hold-answers.js";
import { keyboardFaults } from "../support/browser/keyboard.js";
import { takePictures } from "../support/browser/pictures.js";
import { startDashboardOn, storesByTier } from "../support/browser/stores.js";
import { visitPage } from "../support/browser/visit-page.js";
import { type ReceivedRequest, type Receiver, startReceiver } from "../support/receivers/receiver.js";

let dashboard: DashboardRun;
let receiver: Receiver;
let visit: Visit;

const dialog = () => visit.page.getByRole("dialog");
const card = () => visit.page.getByRole("listitem").filter({ hasText: receiver.url });
const press = (name: string, within: Locator = dialog()) => within.getByRole("button", { name, exact: true }).click();
const shownSecret = () => dialog().locator("code.value").innerText();

async function addEndpoint(): Promise<string> {
  await visit.page.getByRole("button", { name: "Add endpoint" }).click();
  await dialog().getByLabel("URL").fill(receiver.url);
  await dialog().getByLabel("Description").fill("Billing");
  await press("Add endpoint");
  return shownSecret();
}

/** Chooses an action of the endpoint's menu. */
async function act(verb: string): Promise<void> {
  await card()
    .getByRole("button", { name: `Actions of ${receiver.url}` })
    .click();
  await visit.page.getByRole("menuitem", { name: verb, exact: true }).click();
}

function isSigned({ headers, rawBody }: ReceivedRequest | undefined = missing(), secret: string): boolean {
  return verifyWebhook({ secret, header: String(headers["service-signature"]), body: rawBody }).valid;
}

function missing(): never {
  throw new Error("nothing was received");
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium).each(storesByTier)("webhooks page, state in %s", (store) => {
  beforeAll(async () => {
    const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] };
    dashboard = await startDashboardOn(store, { config: { webhooks } });
  });
  afterAll(() => dashboard?.close());

  beforeEach(async () => {
    receiver = await startReceiver({ answer: { status: 503, body: "<b>down</b>" } });
    onTestFinished(() => receiver.close());
    visit = await visitPage(dashboard, "webhooks");
  });

  it("a new endpoint shows its signing secret once (WH-6)", async () => {
    const { page } = visit;
    const secret = await addEndpoint();
    expect(secret).toMatch(/^whsec_/);
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "webhook-secret-once");
    await press("Done");
    await page.reload();
    await card().getByText("Enabled").waitFor();
    expect(await page.content()).not.toContain(secret);
    expect(await card().innerText()).toContain(`whsec_…${secret.slice(-4)}`);
  });

  it("Escape does not close the dialogs that show signing secrets (WH-6, WH-7)", async () => {
    const { page } = visit;
    const answer = await holdAnswers(page, "**/*/CreateWebhookEndpoint");
    await page.getByRole("button", { name: "Add endpoint" }).click();
    await dialog().getByLabel("URL").fill(receiver.url);
    await press("Add endpoint");
    await pressEscapeTwice(page);
    answer.release();
    const first = await shownSecret();
    await pressEscapeTwice(page);
    expect(await shownSecret()).toBe(first);
    await press("Done");
    await act("Rotate secret");
    await press("Rotate");
    await dialog().getByText("The old secret expires on").waitFor();
    const second = await shownSecret();
    expect(second).not.toBe(first);
    await pressEscapeTwice(page);
    expect(await shownSecret()).toBe(second);
  });

  it("a test event shows the receiver's response as text (WH-49, WH-43)", async () => {
    const { page } = visit;
    const secret = await addEndpoint();
    await press("Done");
    await act("Send test event");
    await press("Send");
    await dialog().getByText("HTTP 503").waitFor();
    expect(await dialog().locator("pre").first().innerText()).toBe("<b>down</b>");
    expect(isSigned(receiver.requests[0], secret)).toBe(true);
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "webhook-test");
    receiver.answerWith({ status: 200 });
    await press("Send again");
    await dialog().getByText("HTTP 200").waitFor();
  });

  it("a rotation shows the new secret once, and both secrets sign until the old one expires (WH-7)", async () => {
    const old = await addEndpoint();
    await press("Done");
    await act("Rotate secret");
    await dialog().getByLabel("Old secret expires").selectOption("In 1 hour");
    await press("Rotate");
    await dialog().getByText("The old secret expires on").waitFor();
    const secret = await shownSecret();
    await press("Done");
    await card().getByText("the previous secret expires in 60 min").waitFor();
    await act("Send test event");
    await press("Send");
    await receiver.until(1);
    expect([isSigned(receiver.requests[0], old), isSigned(receiver.requests[0], secret)]).toEqual([true, true]);
  });

  it("an endpoint is edited, disabled, enabled and deleted (WH-2, WH-30)", async () => {
    const { page } = visit;
    await addEndpoint();
    await press("Done");
    await act("Edit");
    await dialog().getByLabel("Description").fill("Invoices");
    await dialog().getByText("usage.threshold_reached").click();
    await press("Save");
    await card().getByText("request.completed, request.failed, usage.threshold_reached").waitFor();
    await act("Disable");
    await press("Disable");
    await card().getByText("Disabled", { exact: true }).waitFor();
    await act("Enable");
    await press("Enable");
    await card().getByText("Enabled", { exact: true }).waitFor();
    await act("Delete");
    expect(await accessibilityFaults(page)).toEqual([]);
    await press("Delete");
    await card().waitFor({ state: "detached" });
  });

  it("an invalid URL shows the service's message (WH-4)", async () => {
    await visit.page.getByRole("button", { name: "Add endpoint" }).click();
    await dialog().getByLabel("URL").fill("https://localhost/hook");
    await press("Add endpoint");
    expect(await dialog().getByRole("alert").innerText()).toContain("private network");
    expect(await dialog().getByLabel("URL").getAttribute("aria-invalid")).toBe("true");
  });

  it("every part of the page is accessible and reachable by keyboard", async () => {
    const { page } = visit;
    await addEndpoint();
    await press("Done");
    await page.getByText("Verify deliveries in your receiver").click();
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "webhooks");
    expect(await keyboardFaults(page)).toEqual([]);
  });
});
