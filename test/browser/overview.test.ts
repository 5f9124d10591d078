import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { ask } from "../support/browser/ask.js";
import { hasChromium } from "../support/browser/chromium.js";
import { noComplaints } from "../support/browser/complaints.js";
import { type DashboardRun, startDashboard, type Visit } from "../support/browser/dashboard.js";
import { unreachableByKeyboard } from "../support/browser/keyboard.js";
import { takePictures } from "../support/browser/pictures.js";

const models = [
  { id: "quick", engine: "scripted", scripted: { text: "Hello from the script." } },
  { id: "slow", engine: "scripted", slots: 1, scripted: { text: "Word. ", tokens: 110, token_delay_ms: 50 } },
  { id: "faulty", engine: "scripted", scripted: { fail: { code: "internal_error" } } },
];

let dashboard: DashboardRun;
let visit: Visit;

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("the overview in a browser", () => {
  beforeAll(async () => {
    dashboard = await startDashboard({ config: { models } });
  });
  afterAll(() => dashboard?.close());

  beforeEach(async () => {
    visit = await dashboard.visitSignedIn();
    onTestFinished(async () => {
      expect(visit.complaints).toEqual(noComplaints);
      await visit.close();
    });
    await visit.go("");
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
    expect(await unreachableByKeyboard(page)).toEqual([]);
    await takePictures(page, "overview");
  });

  it("says what keeps the state, and what a power cut can take", async () => {
    const store = visit.page.getByRole("region", { name: "Store" });
    await store.getByText("Everything").waitFor();
    await store.getByText("answers").waitFor();
    await visit.page
      .getByRole("region", { name: "Service" })
      .getByText(/\(\d+ s ago\)/)
      .waitFor();
  });
});
