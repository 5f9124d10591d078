import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { ask } from "../support/browser/ask.js";
import { hasChromium } from "../support/browser/chromium.js";
import type { DashboardRun, Visit } from "../support/browser/dashboard.js";
import { keyboardFaults } from "../support/browser/keyboard.js";
import { takePictures } from "../support/browser/pictures.js";
import { startDashboardOn, storesByTier } from "../support/browser/stores.js";
import { visitPage } from "../support/browser/visit-page.js";
import { writeScriptedGguf } from "../support/gguf/scripted-gguf.js";
import { HubServer } from "../support/hub-server.js";

let folder: string;
let hub: HubServer;
let dashboard: DashboardRun;
let visit: Visit;

const dialog = () => visit.page.getByRole("dialog");
const pull = () => visit.page.getByRole("region", { name: "Pull" });
const catalog = () => visit.page.getByRole("table", { name: "Catalog" });
const stored = () => visit.page.getByRole("table", { name: "Downloaded models" });
const source = () => `${hub.endpoint}/owner/repo/resolve/main/Some-Model.gguf`;

/** Chooses an action of the menu of the model that is pulled. */
async function act(verb: string): Promise<void> {
  await visit.page.getByRole("button", { name: "Actions of pulled" }).click();
  await visit.page.getByRole("menuitem", { name: verb, exact: true }).click();
}

async function startPull(from: string, id: string): Promise<void> {
  await visit.page.getByRole("button", { name: "Pull a model" }).click();
  await dialog().getByLabel("Source").fill(from);
  await dialog().getByLabel("Model ID").fill(id);
  await dialog().getByRole("button", { name: "Pull" }).click();
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium).each(storesByTier)("models page, state in %s", (store) => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uis-models-page-"));
    const file = join(folder, "chat.gguf");
    await writeScriptedGguf(file, { text: "It works." });
    hub = await HubServer.start();
    hub.put("owner/repo", "Some-Model.gguf", await readFile(file));
    const config = { engine: { threads: 1 }, model_store: { pull_allow: ["127.0.0.0/8"] } };
    dashboard = await startDashboardOn(store, { config, env: { HF_ENDPOINT: hub.endpoint } });
  });
  afterAll(async () => {
    await dashboard?.close();
    await hub?.close();
    await rm(folder, { recursive: true });
  });

  beforeEach(async () => {
    visit = await visitPage(dashboard, "models");
  });

  it("lists the catalog with capabilities, and opens a model in the playground", async () => {
    const { page } = visit;
    const row = catalog().getByRole("row").filter({ hasText: "test-embed" });
    expect(await row.innerText()).toMatch(/Ready[\s\S]*embeddings[\s\S]*8 dimensions[\s\S]*0 of 64/);
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    await row.getByRole("link", { name: "Try test-embed" }).click();
    await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
    expect(await page.getByLabel("Model").inputValue()).toBe("test-embed");
  });

  it("pulls a model with progress, resumes after a stop, and unloads, loads and removes it", async () => {
    const { page } = visit;
    hub.play({ stallAfterBytes: 200_000 });
    await startPull(source(), "pulled");
    await pull().getByRole("progressbar").waitFor();
    await pull()
      .getByText(/^[\d.]+ KiB of /)
      .waitFor();
    await page.getByRole("link", { name: "Usage" }).click();
    await page.getByRole("heading", { level: 1, name: "Usage" }).waitFor();
    await page.getByRole("link", { name: "Models" }).click();
    await pull().getByText("The service continues when this page is closed.").waitFor();
    await takePictures(page, "models-pull");
    await pull().getByRole("button", { name: "Stop" }).click();
    await pull().getByText("Stopped, partial download kept").waitFor();
    await pull().getByRole("button", { name: "Dismiss" }).click();

    await startPull(source(), "pulled");
    await pull().getByText("Pulled and loaded").waitFor();
    expect(await pull().getByText("The service continues").count()).toBe(0);
    await page.getByRole("button", { name: "Pull a model" }).click();
    expect(await dialog().getByLabel("Source").inputValue()).toBe("");
    await page.keyboard.press("Escape");
    await pull().getByRole("button", { name: "Dismiss" }).click();
    await stored().getByRole("row").filter({ hasText: "pulled" }).getByText("Loaded", { exact: true }).waitFor();
    expect(await ask(dashboard.service, "pulled")).toBe(200);
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "models");

    await act("Unload");
    await stored().getByText("Not loaded").waitFor();
    await act("Load");
    await catalog().getByText("pulled").waitFor();
    await act("Remove");
    expect(await accessibilityFaults(page)).toEqual([]);
    await dialog().getByRole("button", { name: "Remove" }).click();
    await page.getByText("No downloaded models.").waitFor();
    expect(await ask(dashboard.service, "pulled")).toBe(404);
  });

  it("finds models by name, shows the error of an invalid source in the form, and shows pulls of other tabs", async () => {
    await visit.page.getByRole("button", { name: "Pull a model" }).click();
    await dialog().getByLabel("Source").fill("qwen3 0.6b");
    await dialog().getByRole("button", { name: "Search for a model" }).click();
    await dialog().getByRole("button", { name: "Use qwen3:0.6b" }).click();
    expect(await dialog().getByLabel("Source").inputValue()).toBe("qwen3:0.6b");
    await dialog().getByRole("button", { name: "Cancel" }).click();

    await startPull("hf:nothing", "x");
    await dialog().getByText("is not of the form hf:owner/repo/file@revision").waitFor();
    await dialog().getByRole("button", { name: "Cancel" }).click();

    hub.play({ stallAfterBytes: 200_000 });
    await startPull(source(), "kept");
    await pull().getByRole("progressbar").waitFor();
    await visit.page.reload();
    await pull().getByRole("progressbar").waitFor();
    await pull().getByRole("button", { name: "Stop" }).click();
    await pull().getByText("Stopped, partial download kept").waitFor();
  });
});
