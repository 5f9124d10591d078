import type { Route } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { ask } from "../support/browser/ask.js";
import { hasChromium } from "../support/browser/chromium.js";
import { noComplaints } from "../support/browser/complaints.js";
import { type DashboardRun, startDashboard, type Visit } from "../support/browser/dashboard.js";
import { keyboardFaults } from "../support/browser/keyboard.js";
import { takePictures } from "../support/browser/pictures.js";
import { startDashboardOn } from "../support/browser/stores.js";
import { visitPage } from "../support/browser/visit-page.js";
import { eventually } from "../support/eventually.js";

const models = [
  { id: "quick", engine: "scripted", scripted: { text: "Hello from the script." } },
  { id: "slow", engine: "scripted", slots: 1, scripted: { text: "Word. ", tokens: 110, token_delay_ms: 50 } },
  { id: "faulty", engine: "scripted", scripted: { fail: { code: "internal_error" } } },
];

/** Simulates a tab in the background. */
function setHidden(page: Visit["page"], isHidden: boolean): Promise<void> {
  return page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
}

let dashboard: DashboardRun;
let visit: Visit;

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("overview page", () => {
  beforeAll(async () => {
    dashboard = await startDashboard({ config: { offline: true, models } });
  });
  afterAll(() => dashboard?.close());

  beforeEach(async () => {
    visit = await visitPage(dashboard, "");
  });

  const card = (title: string) =>
    visit.page.locator(".card", { has: visit.page.getByRole("heading", { name: title, exact: true }) });

  it("shows active, queued, finished and failed requests live", async () => {
    const { page } = visit;
    await page.getByText("of 129 slots, 0 queued").waitFor();
    expect(await card("Active now").innerText()).toMatch(/\n0\n/);
    await page.getByText("Healthy: 3 of 3 models ready, store available.").waitFor();

    const answers = [1, 2, 3].map(() => ask(dashboard.service, "slow"));
    await card("Active now").getByText("1", { exact: true }).waitFor();
    await card("Active now").getByText("of 129 slots, 2 queued").waitFor();
    await page.getByText("slow: all slots are busy, 2 requests are queued.").waitFor();
    const produced = page.getByRole("row", { name: /^slow/ }).getByRole("cell").nth(4);
    await expect.poll(async () => Number(await produced.innerText())).toBeGreaterThan(0);
    await card("Output now")
      .getByText(/^[\d.]*[1-9][\d.]*$/)
      .waitFor();

    expect(await ask(dashboard.service, "quick")).toBe(200);
    expect(await ask(dashboard.service, "faulty")).toBe(500);
    await takePictures(page, "overview-busy");
    await Promise.all(answers);
    await card("Active now").getByText("0", { exact: true }).waitFor();
    await page.reload();
    await card("Requests").getByText("5", { exact: true }).waitFor();
    await card("Error rate").getByText("20.0 %").waitFor();
    await card("Error rate").getByText("1 of 5 failed").waitFor();
    await card("Tokens")
      .getByText(/ input, \d+ output$/)
      .waitFor();
    await card("Request duration")
      .getByText(/^p50; p95 /)
      .waitFor();
  });

  it("shows a day or a week from its URL, with a table below the chart, and is accessible", async () => {
    const { page } = visit;
    await page
      .getByRole("img", { name: /^Tokens per second, last hour/ })
      .locator("canvas")
      .waitFor();
    await page.getByRole("navigation", { name: "Time range" }).getByRole("link", { name: "7d" }).click();
    await page.getByRole("img", { name: /^Tokens per second, last 7 days/ }).waitFor();
    expect(page.url()).toContain("range=7d");
    await page.getByText("Show as a table").click();
    await page.getByRole("table", { name: "Last 7 days, newest first" }).getByRole("cell").first().waitFor();
    await page.getByLabel("Metric").selectOption("Request duration");
    await page.getByRole("listitem").filter({ hasText: "p95" }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    await takePictures(page, "overview-table");
  });

  it("advice and first steps stay dismissed in this browser", async () => {
    const { page } = visit;
    const steps = page.getByRole("region", { name: "First steps" });
    await steps.getByText("Set a budget or a usage threshold").waitFor();
    await page
      .getByText(/^state\.durability is none|memory/)
      .first()
      .waitFor();
    await steps.getByRole("button", { name: "Dismiss first steps" }).click();
    await steps.waitFor({ state: "detached" });
    const dismiss = page.getByRole("button", { name: "Dismiss", exact: true });
    while ((await dismiss.count()) > 0) await dismiss.click();
    await page.reload();
    await page.getByRole("img").locator("canvas").waitFor();
    expect([await steps.count(), await dismiss.count()]).toEqual([0, 0]);
  });

  it("shows why it is disconnected, reconnects, and closes the stream while hidden", async () => {
    const { page } = visit;
    const state = page.getByRole("status").filter({ hasText: /^(Live|Connecting|Disconnected)/ });
    await state.getByText("Live", { exact: true }).waitFor();
    const refusal = { code: "unavailable", message: "The service is stopping." };
    let answer = (route: Route): Promise<void> => route.fulfill({ status: 503, json: refusal });
    await page.route("**/WatchOverview", (route) => answer(route));
    await page.reload();
    await state.getByText(/Disconnected The service is stopping\./).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    // While an attempt is unanswered, the button stays visible if the attempt was automatic and is hidden after a click.
    const held: Route[] = [];
    answer = async (route) => void held.push(route);
    await page.getByRole("button", { name: "Reconnect now" }).click();
    await state.getByText("Connecting", { exact: true }).waitFor();
    await page.unroute("**/WatchOverview");
    // Requests that the page aborted cannot continue.
    await Promise.allSettled(held.map((route) => route.continue()));
    await state.getByText("Live", { exact: true }).waitFor();

    const watches = async () => (await dashboard.service.debugState()).requests.by_stage["watching"] ?? 0;
    expect(await watches()).toBe(1);
    await setHidden(page, true);
    await eventually(async () => (await watches()) === 0);
    await setHidden(page, false);
    await eventually(async () => (await watches()) === 1);
  });

  it("runs diagnostics on request and recommends fixes", async () => {
    const { page } = visit;
    const diagnostics = page.getByRole("region", { name: "Diagnostics" });
    await diagnostics.getByRole("button", { name: "Run diagnostics" }).click();
    await diagnostics.getByText(/^\d+ of \d+ checks need attention\.$/).waitFor();
    const row = (name: RegExp) => diagnostics.getByRole("row", { name });
    expect(await row(/^engine/).innerText()).toMatch(/OK\s+node-llama-cpp [\d.]+ loads\s+–/);
    expect(await row(/^state/).innerText()).toMatch(/Warning\s+state\.durability is none.*\s+remove state\.durability/);
    expect(await accessibilityFaults(page)).toEqual([]);
  });

  it("shows the store, its durability and the listeners", async () => {
    const store = visit.page.getByRole("region", { name: "Store" });
    await store.getByText("Not persisted").waitFor();
    await store.getByText("Available", { exact: true }).waitFor();
    await visit.page
      .getByRole("region", { name: "Service" })
      .getByText(/\(\d+ (s|min) ago\)/)
      .waitFor();
    const { http, grpc } = dashboard.service;
    const [httpPort, grpcPort] = [http, grpc].map((address) => address.split(":").at(-1));
    await visit.page.getByText(`127.0.0.1, HTTP port ${httpPort}, gRPC port ${grpcPort}, TLS off`).waitFor();
  });
});

// Needs Debian's Chromium and Redis.
describe.skipIf(!hasChromium)("overview page of a service on Redis", () => {
  beforeAll(async () => {
    dashboard = await startDashboardOn("Redis", { config: { models } });
  });
  afterAll(() => dashboard?.close());

  it("counts finished requests and shows that Redis is available", async () => {
    visit = await dashboard.visitSignedIn();
    const { page, complaints } = visit;
    await visit.go("");
    expect(await ask(dashboard.service, "quick")).toBe(200);
    await page.reload();
    await page.getByText("0 of 1 failed").waitFor();
    const store = page.getByRole("region", { name: "Store" });
    await store.getByText("Redis", { exact: true }).waitFor();
    await store.getByText("Available", { exact: true }).waitFor();
    expect(complaints).toEqual(noComplaints);
  });
});
