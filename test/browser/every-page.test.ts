import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { hasChromium } from "../support/browser/chromium.js";
import { companyBrowser, startCompany } from "../support/browser/company.js";
import { noComplaints } from "../support/browser/complaints.js";
import { type DashboardRun, startDashboard, type Visit } from "../support/browser/dashboard.js";
import { keyboardFaults } from "../support/browser/keyboard.js";

interface PageWalk {
  readonly page: string;
  /** The page's heading. */
  readonly title: string;
  readonly charts: number;
  /** The controls that open a dialog; if several match, the first is used. */
  readonly dialogs: readonly Opening[];
}

/** Name of a button, or of a button with a menu and of its item. */
type Opening = RegExp | readonly [menu: RegExp, item: RegExp];

const actions = /^Actions of /;

const walks: readonly PageWalk[] = [
  {
    page: "keys",
    title: "API keys",
    charts: 0,
    dialogs: [/^Create key$/, [actions, /^Edit$/], [actions, /^Rotate$/], [actions, /^Revoke$/]],
  },
  {
    page: "usage",
    title: "Usage",
    charts: 1,
    dialogs: [/^Add threshold$/, [actions, /^Edit$/], [actions, /^Delete$/]],
  },
  { page: "models", title: "Models", charts: 0, dialogs: [/^Pull a model$/, [actions, /^Remove$/]] },
  { page: "playground", title: "Playground", charts: 0, dialogs: [] },
  {
    page: "upstreams",
    title: "Upstreams",
    charts: 0,
    dialogs: [/^Add upstream$/, [actions, /^Test$/], [actions, /^Edit$/], [actions, /^Delete$/]],
  },
  {
    page: "webhooks",
    title: "Webhooks",
    charts: 0,
    dialogs: [
      /^Add endpoint$/,
      [actions, /^Edit$/],
      [actions, /^Rotate secret$/],
      [actions, /^Send test event$/],
      [actions, /^Disable$/],
      [actions, /^Delete$/],
    ],
  },
  { page: "requests", title: "Requests", charts: 0, dialogs: [] },
  {
    page: "deliveries",
    title: "Deliveries",
    charts: 0,
    dialogs: [[actions, /^(Retry now|Resend)$/], /^Replay deliveries$/],
  },
  { page: "audit", title: "Audit", charts: 0, dialogs: [/^Change password$/, /^Revoke session/] },
  { page: "", title: "Overview", charts: 1, dialogs: [] },
];

let visit: Visit;

async function open({ page: name, title }: PageWalk): Promise<Page> {
  await visit.go(name);
  const { page } = visit;
  await page.getByRole("heading", { level: 1, name: title }).waitFor();
  await expect.poll(() => page.getByText("Loading…").count()).toBe(0);
  return page;
}

/** Runs in the page: elements that scroll sideways, with the overflow in pixels. */
function tooWide(): string[] {
  const parts = [document.documentElement, ...document.querySelectorAll("main *")].filter(
    ({ scrollWidth, clientWidth, tagName }) => clientWidth > 0 && scrollWidth > clientWidth && tagName !== "INPUT",
  );
  return parts
    .filter((part) => part === document.documentElement || /auto|scroll/.test(getComputedStyle(part).overflowX))
    .map((part) => `${part.tagName} ${part.className}: ${part.scrollWidth - part.clientWidth}`);
}

/** Opens a dialog: it is accessible, traps the focus, closes with Escape and restores the focus. */
async function walkThrough(page: Page, opening: Opening): Promise<void> {
  const [name, item] = opening instanceof RegExp ? [opening] : opening;
  const opener = page.locator("main").getByRole("button", { name }).first();
  await opener.press("Enter");
  if (item !== undefined) await page.getByRole("menuitem", { name: item }).press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  // Content that arrives during the presses of Tab would move the focus.
  await expect.poll(() => dialog.getByText("Loading…").count()).toBe(0);
  expect(await dialog.evaluate((element) => element.contains(document.activeElement))).toBe(true);
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(await keyboardFaults(page)).toEqual([]);
  await page.keyboard.press("Escape");
  // A closed dialog has no role any more, but is removed a moment later; until then the page cannot open another one.
  await page.locator("dialog").waitFor({ state: "detached" });
  expect(await opener.evaluate((element) => element === document.activeElement)).toBe(true);
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("every page after a week of use", () => {
  let company: DashboardRun;

  beforeAll(async () => {
    company = await startCompany();
    visit = await company.visitSignedIn({ userAgent: companyBrowser });
  });
  afterAll(() => company?.close());

  it.each(walks)("$title is accessible in both colour schemes and by keyboard alone", async (walk) => {
    const page = await open(walk);
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    expect(visit.complaints).toEqual(noComplaints);
  });

  it.each(walks.filter(({ dialogs }) => dialogs.length > 0))(
    "the dialogs of $title trap the focus and restore it",
    async (walk) => {
      const page = await open(walk);
      for (const opening of walk.dialogs) await walkThrough(page, opening);
      expect(visit.complaints).toEqual(noComplaints);
    },
  );

  it.each(walks.filter(({ charts }) => charts > 0))(
    "each chart of $title has a table of the same numbers",
    async (walk) => {
      const page = await open(walk);
      const charts = page.getByRole("img");
      await charts.first().waitFor();
      expect(await charts.count()).toBe(walk.charts);
      expect(await charts.first().getAttribute("aria-label")).toMatch(/The tables? .* (has|have) the same data\.$/);
      const numbers = page.getByRole("table").getByRole("cell").filter({ hasText: /\d/ });
      expect(await numbers.count()).toBeGreaterThan(0);
    },
  );

  it("a menu has the focus as soon as it opens, and Escape returns it to the button", async () => {
    const page = await open({ page: "models", title: "Models", charts: 0, dialogs: [] });
    const opener = page.locator("main").getByRole("button", { name: actions }).first();
    await opener.focus();
    const focused = await opener.evaluate((button) => {
      if (button instanceof HTMLElement) button.click();
      // Read before the page handles another event: the next key already belongs to the menu.
      return document.activeElement?.getAttribute("role");
    });
    expect(focused).toBe("menuitem");
    const items = page.getByRole("menuitem");
    const isFocused = (at: number) => items.nth(at).evaluate((item) => item === document.activeElement);
    expect(await isFocused(0)).toBe(true);
    await page.keyboard.press("ArrowUp");
    expect(await isFocused((await items.count()) - 1)).toBe(true);
    await page.keyboard.press("Escape");
    expect(await items.count()).toBe(0);
    expect(await opener.evaluate((button) => button === document.activeElement)).toBe(true);
  });

  it("Ctrl-K finds a page, a key or a model by keyboard alone", async () => {
    const page = await open({ page: "", title: "Overview", charts: 1, dialogs: [] });
    await page.keyboard.press("Control+k");
    const search = page.getByRole("combobox", { name: /^Search/ });
    await search.waitFor();
    await page.getByRole("option", { name: /^Support assistant/ }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.keyboard.type("webh sett");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Webhooks" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("option", { name: /^Support assistant/ }).waitFor();
    await page.keyboard.type("support assistant");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
    await page.getByRole("cell", { name: /^Support assistant/ }).waitFor();
    expect(await page.getByRole("cell", { name: "Grafana" }).count()).toBe(0);
    await page.keyboard.press("Control+k");
    await search.waitFor();
    await page.keyboard.press("Escape");
    await search.waitFor({ state: "detached" });
    expect(visit.complaints).toEqual(noComplaints);
  });

  it("the navigation is a drawer in a narrow window", async () => {
    const { page } = visit;
    const before = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    await open({ page: "", title: "Overview", charts: 1, dialogs: [] });
    const links = page.getByRole("navigation", { name: "Main" }).getByRole("link");
    expect(await links.count()).toBe(0);
    await page.getByRole("button", { name: "Menu" }).press("Enter");
    await links.first().waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    const texts = await links.allInnerTexts();
    expect(texts.toSorted()).toEqual(walks.map(({ title }) => title).toSorted());
    await page.getByRole("link", { name: "Audit" }).press("Enter");
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    expect(await links.count()).toBe(0);
    if (before !== null) await page.setViewportSize(before);
  });

  it("Requests filters by result, and shows a request with the waterfall of its steps and its content", async () => {
    const page = await open({ page: "requests", title: "Requests", charts: 0, dialogs: [] });
    await page.getByRole("link", { name: "Failed" }).click();
    await page.getByRole("link", { name: /^qwen3-4b-instruct, request req_/ }).waitFor();
    expect(await page.locator(".badge").allTextContents()).toEqual(["upstream_timeout", "rate_limit_exceeded"]);
    await page.getByRole("link", { name: "All", exact: true }).click();
    await page
      .getByRole("link", { name: /^qwen3-4b-instruct, request req_/ })
      .first()
      .click();
    const steps = page.getByRole("table", { name: "Steps of the request" });
    await steps.getByRole("row", { name: /gpu-1\/qwen3-4b .* upstream_error/ }).waitFor();
    await page.getByText("What is a reverse proxy?").waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    const before = page.viewportSize();
    await page.setViewportSize({ width: 360, height: 740 });
    expect(await page.evaluate(tooWide)).toEqual([]);
    if (before !== null) await page.setViewportSize(before);
    await page.getByRole("link", { name: "← All requests" }).click();
    await page.getByRole("link", { name: /^all-minilm-l6-v2, request req_/ }).waitFor();
  });

  it.each([1280, 360])("nothing scrolls sideways in a window of %i pixels", async (width) => {
    const { page } = visit;
    const before = page.viewportSize();
    await page.setViewportSize({ width, height: 740 });
    for (const walk of walks) {
      await open(walk);
      expect([walk.title, await page.evaluate(tooWide)]).toEqual([walk.title, []]);
    }
    if (before !== null) await page.setViewportSize(before);
  });
});

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("every page of an unused service", () => {
  let unused: DashboardRun;

  beforeAll(async () => {
    unused = await startDashboard({ config: { models: [] } });
    visit = await unused.visitSignedIn();
  });
  afterAll(() => unused?.close());

  it.each(walks)("$title is accessible and has no errors", async (walk) => {
    const page = await open(walk);
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(visit.complaints).toEqual(noComplaints);
  });
});
