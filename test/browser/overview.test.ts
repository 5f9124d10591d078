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

/** As a browser does whose window is covered or whose tab is left. */
function setHidden(page: Visit["page"], isHidden: boolean): Promise<void> {
  return page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
}

let dashboard: DashboardRun;
let visit: Visit;

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("the overview in a browser", () => {
  beforeAll(async () => {
    dashboard = await startDashboard({ config: { offline: true, models } });
  });
  afterAll(() => dashboard?.close());

  beforeEach(async () => {
    visit = await visitPage(dashboard, "");
  });

  const card = (title: string) =>
    visit.page.locator(".card", { has: visit.page.getByRole("heading", { name: title }) });

  it("tells what runs, waits, ended and failed while it happens, without a reload", async () => {
    const { page } = visit;
    await page.getByText("of 129 slots").waitFor();
    expect(await card("Running now").innerText()).toMatch(/\n0\n/);

    const answers = [1, 2, 3].map(() => ask(dashboard.service, "slow"));
    await card("Running now").getByText("1", { exact: true }).waitFor();
    await card("Waiting now").getByText("2", { exact: true }).waitFor();
    await page.getByText("slow: all slots are taken, and 2 requests wait.").waitFor();
    const produced = page.getByRole("row", { name: /^slow/ }).getByRole("cell").nth(4);
    expect(Number(await produced.innerText())).toBeGreaterThan(0);

    expect(await ask(dashboard.service, "quick")).toBe(200);
    expect(await ask(dashboard.service, "faulty")).toBe(500);
    await card("Failed in 5 min")
      .getByText(/^\d+\.\d % of \d; since the start 1,/)
      .waitFor();
    await takePictures(page, "overview-busy");
    await Promise.all(answers);
    await card("Requests/s").getByText("5 since the start").waitFor();
    await card("Running now").getByText("0", { exact: true }).waitFor();
  });

  it("has a table beside its chart, is reached by keyboard and by those who cannot see it", async () => {
    const { page } = visit;
    await page
      .getByRole("img", { name: /^Tokens per second over the last five minutes/ })
      .locator("canvas")
      .waitFor();
    await page.getByRole("table", { name: "The last five minutes, by minute" }).getByRole("cell").first().waitFor();
    await page.getByLabel("Chart of").selectOption("Running and waiting");
    await page.getByRole("listitem").filter({ hasText: "Waiting" }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    await takePictures(page, "overview");
  });

  it("says when it is not live and why, tries again, and asks for nothing while it is hidden", async () => {
    const { page } = visit;
    const state = page.getByRole("status").filter({ hasText: /^(Live|Connecting|Not live)/ });
    await state.getByText("Live", { exact: true }).waitFor();
    const refusal = { code: "unavailable", message: "The service is stopping." };
    let answer = (route: Route): Promise<void> => route.fulfill({ status: 503, json: refusal });
    await page.route("**/WatchOverview", (route) => answer(route));
    await page.reload();
    await state.getByText(/Not live The service is stopping\./).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    // Unanswered, an attempt that the page makes by itself leaves the button there; one that was asked for does not.
    const held: Route[] = [];
    answer = async (route) => void held.push(route);
    await page.getByRole("button", { name: "Try now" }).click();
    await state.getByText("Connecting", { exact: true }).waitFor();
    await page.unroute("**/WatchOverview");
    // Those that the page has given up cannot go on.
    await Promise.allSettled(held.map((route) => route.continue()));
    await state.getByText("Live", { exact: true }).waitFor();

    const watches = async () => (await dashboard.service.debugState()).requests.by_stage["watching"] ?? 0;
    expect(await watches()).toBe(1);
    await setHidden(page, true);
    await eventually(async () => (await watches()) === 0);
    await setHidden(page, false);
    await eventually(async () => (await watches()) === 1);
  });

  it("checks the installation when it is asked to, and tells what to do about what it finds", async () => {
    const { page } = visit;
    const installation = page.getByRole("region", { name: "Installation" });
    await installation.getByRole("button", { name: "Check this installation" }).click();
    await installation.getByText(/^\d+ of \d+ need attention\.$/).waitFor();
    const row = (name: RegExp) => installation.getByRole("row", { name });
    expect(await row(/^engine/).innerText()).toMatch(/Well\s+node-llama-cpp [\d.]+ loads\s+Nothing/);
    expect(await row(/^state/).innerText()).toMatch(/Look\s+state\.durability is none.*\s+leave state\.durability out/);
    expect(await accessibilityFaults(page)).toEqual([]);
  });

  it("says what keeps the state, and what a power cut can take", async () => {
    const store = visit.page.getByRole("region", { name: "Store" });
    await store.getByText("Everything").waitFor();
    await store.getByText("answers").waitFor();
    await visit.page
      .getByRole("region", { name: "Service" })
      .getByText(/\(\d+ s ago\)/)
      .waitFor();
    const { http, grpc } = dashboard.service;
    const [httpPort, grpcPort] = [http, grpc].map((address) => address.split(":").at(-1));
    await visit.page.getByText(`127.0.0.1: HTTP on ${httpPort}, gRPC on ${grpcPort}, without TLS`).waitFor();
  });
});

// Needs Debian's Chromium and Redis.
describe.skipIf(!hasChromium)("the overview of a service on Redis", () => {
  beforeAll(async () => {
    dashboard = await startDashboardOn("Redis", { config: { models } });
  });
  afterAll(() => dashboard?.close());

  it("tells what ended, and that Redis keeps the state and answers", async () => {
    visit = await dashboard.visitSignedIn();
    const { page, complaints } = visit;
    await visit.go("");
    expect(await ask(dashboard.service, "quick")).toBe(200);
    await page.getByText("1 since the start").waitFor();
    const store = page.getByRole("region", { name: "Store" });
    await store.getByText("Redis", { exact: true }).waitFor();
    await store.getByText("answers").waitFor();
    expect(complaints).toEqual(noComplaints);
  });
});
