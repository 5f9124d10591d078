import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasChromium } from "../support/browser/chromium.js";
import { type Company, companyBrowser, startCompany } from "../support/browser/company.js";
import { assistant } from "../support/browser/company-data.js";
import type { Visit } from "../support/browser/dashboard.js";
import { takePagePictures } from "../support/browser/pictures.js";

/** How long the overview collects data before its screenshot. */
const watchedMs = 300_000;

let company: Company;
let visit: Visit;

async function show(page: string, title: string): Promise<void> {
  await visit.go(page);
  await visit.page.getByRole("heading", { level: 1, name: title }).waitFor();
  await expect.poll(() => visit.page.getByText("Loading…").count()).toBe(0);
}

// For review; the documentation shows some of them. Needs Debian's Chromium.
describe.skipIf(!hasChromium)("screenshots of every page", () => {
  beforeAll(async () => {
    company = await startCompany();
    visit = await company.visitSignedIn({ userAgent: companyBrowser });
  });
  afterAll(() => company?.close());

  it.each([
    { page: "keys", title: "API keys" },
    { page: "models", title: "Models" },
    { page: "upstreams", title: "Upstreams" },
    { page: "requests", title: "Requests" },
    { page: "webhooks", title: "Webhooks" },
    { page: "deliveries", title: "Deliveries" },
    { page: "audit", title: "Audit" },
  ])("$title", async ({ page, title }) => {
    await show(page, title);
    await takePagePictures(visit.page, page);
  });

  it("Usage", async () => {
    await show("usage", "Usage");
    await visit.page.getByRole("img").locator("canvas").waitFor();
    await takePagePictures(visit.page, "usage");
  });

  it("a failed delivery", async () => {
    const { page } = visit;
    await show("deliveries?state=permanently_failed", "Deliveries");
    await page
      .getByRole("link", { name: /delivery dlv_/ })
      .first()
      .click();
    await page.getByRole("heading", { name: "Payload" }).waitFor();
    await takePagePictures(page, "delivery");
  });

  it("a request with its steps", async () => {
    const { page } = visit;
    await show("requests", "Requests");
    await page
      .getByRole("link", { name: /^qwen3-4b-instruct, request req_/ })
      .first()
      .click();
    await page.getByRole("table", { name: "Steps of the request" }).waitFor();
    await takePagePictures(page, "request");
  });

  it("the palette", async () => {
    const { page } = visit;
    await show("models", "Models");
    await page.keyboard.press("Control+k");
    await page.getByRole("option", { name: /^Support assistant/ }).waitFor();
    await takePagePictures(page, "palette");
    await page.keyboard.press("Escape");
  });

  it("the sign-in form", async () => {
    const stranger = await company.visit();
    await stranger.go("");
    await stranger.page.getByRole("button", { name: "Sign in" }).waitFor();
    await takePagePictures(stranger.page, "sign-in");
    await stranger.close();
  });

  it("Playground", async () => {
    const { page } = visit;
    await show(`playground?model=${assistant}`, "Playground");
    await page.getByLabel("System prompt").fill("Answer in a few plain sentences.");
    await page.getByLabel("Max tokens").fill("50");
    await page.getByLabel("Message").fill("What does a reverse proxy do?");
    await page.getByRole("button", { name: "Send" }).click();
    await page
      .getByRole("status")
      .getByText(/tokens\/s/)
      .waitFor();
    await page.getByRole("status").getByText("Done.").waitFor();
    await takePagePictures(page, "playground");
  });

  it("Overview of a busy service", { timeout: watchedMs + 60_000 }, async () => {
    const { page } = visit;
    const endTraffic = company.startTraffic();
    await show("", "Overview");
    await page.getByRole("img").locator("canvas").waitFor();
    await page.waitForTimeout(watchedMs);
    await takePagePictures(page, "overview");
    await endTraffic();
  });
});
