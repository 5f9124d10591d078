import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { hasChromium } from "../support/browser/chromium.js";
import { noComplaints } from "../support/browser/complaints.js";
import { type DashboardRun, startDashboard, type Visit } from "../support/browser/dashboard.js";
import { hostileTexts } from "../support/browser/hostile-texts.js";
import { startReceiver } from "../support/receivers/receiver.js";

/** Maximum length of a key's name. */
const nameCharsMax = 128;

const names = hostileTexts.map((text) => text.slice(0, nameCharsMax));
/** Number of texts that fit into one answer of the playground. */
const messageTexts = 50;

let dashboard: DashboardRun;
let visit: Visit;

/** All text of the page and of the further pages of its list. */
async function readThrough(): Promise<string> {
  const { page } = visit;
  let text = "";
  for (;;) {
    await page.waitForLoadState("networkidle");
    await expect.poll(() => page.getByText("Loading…").count()).toBe(0);
    const shown = await page.locator("main").innerText();
    text += shown;
    const next = page.getByRole("button", { name: "Next page" });
    if ((await next.count()) === 0 || (await next.isDisabled())) return text;
    await next.click();
    await expect.poll(() => page.locator("main").innerText()).not.toBe(shown);
  }
}

const hasRun = () => visit.page.evaluate(() => "__ran" in window);
const unseen = (texts: readonly string[], shown: string) => texts.filter((text) => !shown.includes(text));

async function rpc(path: string, message: object): Promise<void> {
  const { http, adminToken } = dashboard.service;
  const response = await fetch(`${http}/unified.${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${adminToken}` },
    body: JSON.stringify(message),
  });
  if (!response.ok) throw new Error(await response.text());
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("text that could run as script", () => {
  beforeAll(async () => {
    const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"], endpoints_max: 200 };
    const models = [{ id: "echo", engine: "scripted" }];
    dashboard = await startDashboard({ config: { webhooks, models } });
    visit = await dashboard.visitSignedIn({ userAgent: hostileTexts[0] ?? "" });
  });
  afterAll(() => dashboard?.close());

  it("names of keys are shown as text on all pages (SEC-21)", async () => {
    for (const name of names) await rpc("admin.v1.ApiKeyService/CreateApiKey", { name, scope: "SCOPE_READ" });
    await visit.go("keys");
    expect(unseen(names, await readThrough())).toEqual([]);
    for (const page of ["audit", "usage"]) {
      await visit.go(page);
      await readThrough();
    }
    expect([await hasRun(), visit.complaints]).toEqual([false, noComplaints]);
  });

  it("URLs and descriptions of endpoints are shown as text (SEC-21)", async () => {
    for (const description of hostileTexts) {
      const url = `http://127.0.0.1:9999/?${encodeURIComponent(description)}`;
      await createEndpoint({ url, description, events: ["request.failed"] });
    }
    await visit.go("webhooks");
    expect(unseen(hostileTexts, await readThrough())).toEqual([]);
    await visit.go("deliveries");
    await readThrough();
    expect([await hasRun(), visit.complaints]).toEqual([false, noComplaints]);
  });

  it("responses of receivers are shown as text (WH-43, SEC-21)", async () => {
    const [answer = ""] = hostileTexts;
    const receiver = await startReceiver({ answer: { status: 500, body: answer } });
    onTestFinished(() => receiver.close());
    await createEndpoint({ url: receiver.url, events: ["request.completed"] });
    await chat("hello");
    await receiver.until(1);
    await visit.go("deliveries");
    await visit.page.getByRole("link", { name: /^request\.completed, delivery/ }).click();
    await visit.page.locator("details", { hasText: answer }).locator("summary").first().click();
    await visit.page.getByText(answer).first().waitFor();
    expect([await hasRun(), visit.complaints]).toEqual([false, noComplaints]);
  });

  it("prompts and answers are shown as text (SEC-21)", { timeout: 120_000 }, async () => {
    const { page } = visit;
    for (let from = 0; from < hostileTexts.length; from += messageTexts) {
      const asked = hostileTexts.slice(from, from + messageTexts);
      await visit.go("playground?model=echo");
      await page.getByLabel("Message").fill(asked.join("\n"));
      await page.getByRole("button", { name: "Send" }).click();
      const answer = page.getByRole("list", { name: "Conversation" }).getByRole("listitem").nth(1);
      await expect.poll(async () => unseen(asked, await answer.innerText()), { timeout: 20_000 }).toEqual([]);
    }
    expect([await hasRun(), visit.complaints]).toEqual([false, noComplaints]);
  });

  const createEndpoint = (webhookEndpoint: object) =>
    rpc("webhook.v1.WebhookEndpointService/CreateWebhookEndpoint", { webhookEndpoint });

  async function chat(content: string): Promise<void> {
    await fetch(`${dashboard.service.api}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${dashboard.service.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "echo", messages: [{ role: "user", content }] }),
    });
  }
});
