import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { sha256Hex } from "../../src/lib/crypto.js";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { ask } from "../support/browser/ask.js";
import { hasChromium } from "../support/browser/chromium.js";
import { noComplaints } from "../support/browser/complaints.js";
import { type DashboardRun, startDashboard, type Visit } from "../support/browser/dashboard.js";
import { keyboardFaults } from "../support/browser/keyboard.js";
import { takePictures } from "../support/browser/pictures.js";
import { startDashboardOn, storesByTier } from "../support/browser/stores.js";
import { visitPage } from "../support/browser/visit-page.js";
import { answerBytes, RawUpstream } from "../support/upstream/raw-upstream.js";
import { modelList } from "../support/upstream/server-paths.js";
import { whole } from "../support/upstream/test-upstream.js";

const hostile = "<img src=x onerror=window.__ran=1>";

/** A vLLM server with these models that answers every request. */
function startVllm(...ids: string[]): Promise<RawUpstream> {
  const models = ids.map((id) => ({ id, owned_by: "vllm", max_model_len: 8_192 }));
  const pages: Readonly<Record<string, object>> = {
    "/v1/models": modelList(...models),
    "/version": { version: "0.12.0" },
  };
  return RawUpstream.start((socket, { method, path }) => {
    socket.end(
      method === "POST" ? whole : answerBytes("200 OK", "application/json", JSON.stringify(pages[path] ?? {})),
    );
  });
}

let configured: RawUpstream;
let added: RawUpstream;
let dashboard: DashboardRun;
let visit: Visit;

const dialog = () => visit.page.getByRole("dialog");
const card = (name: string) =>
  visit.page.getByRole("listitem").filter({ has: visit.page.getByRole("heading", { name, exact: true }) });
async function act(verb: string, name: string): Promise<void> {
  await card(name)
    .getByRole("button", { name: `Actions of ${name}` })
    .click();
  await visit.page.getByRole("menuitem", { name: verb, exact: true }).click();
}
const confirm = (verb: string) => dialog().getByRole("button", { name: verb, exact: true }).click();
const row = (name: string, model: string) => card(name).getByRole("row").filter({ hasText: model });

// Needs Debian's Chromium.
describe.skipIf(!hasChromium).each(storesByTier)("upstreams page, state in %s", (store) => {
  beforeAll(async () => {
    configured = await startVllm("llama-70b");
    added = await startVllm("qwen-32b", hostile);
    const models = [{ id: "big", engine: "openai", upstream: "file", model: "llama-70b", slots: 8 }];
    const upstreams = { file: { url: configured.url, kind: "vllm", key: "a-key-of-16-chars-1234" } };
    dashboard = await startDashboardOn(store, { config: { models, upstreams } });
  });
  afterAll(async () => {
    await dashboard?.close();
    await configured?.close();
    await added?.close();
  });

  beforeEach(async () => {
    visit = await visitPage(dashboard, "upstreams");
  });

  it("shows an upstream of uis.yaml with its deployments, read-only and without its key", async () => {
    const { page } = visit;
    const text = await card("file").innerText();
    expect(text).toContain(configured.url);
    expect(text).toMatch(/Source\s+uis\.yaml \(read-only\)/);
    expect(text).toMatch(/API key\s+1 key, …1234/);
    expect(await row("file", "big").innerText()).toMatch(/llama-70b at the upstream\s+Ready\s+0 of 8\s+0\s+1\s+0/);
    const buttons = await card("file").getByRole("button").allInnerTexts();
    expect(buttons).toEqual(["", "Drain"]);
    await card("file").getByRole("button", { name: "Actions of file" }).click();
    expect(await page.getByRole("menuitem").allInnerTexts()).toEqual(["Test"]);
    await page.keyboard.press("Escape");
    expect(await page.content()).not.toContain("a-key-of-16");
    expect(await page.getByRole("link", { name: /^Upstreams/ }).getAttribute("aria-current")).toBe("page");
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
  });

  it("tests a new server, adds it, changes its share, drains it and deletes it", async () => {
    const { page } = visit;
    await page.getByRole("button", { name: "Add upstream" }).click();
    await dialog().getByLabel("Name").fill("gpu-2");
    await dialog().getByLabel("URL").fill(added.url);
    await dialog().getByLabel("API key").fill("sk-secret-of-the-upstream");
    await dialog().getByText("Headers, timeouts, native APIs and share of requests").click();
    await dialog().getByLabel("Headers", { exact: true }).fill("x-team: search");
    await dialog().getByLabel("Connect (s)").fill("2.5");
    await dialog().getByRole("combobox", { name: "Native APIs" }).fill("resp");
    await dialog().getByRole("option", { name: "responses" }).click();
    await confirm("Test");
    await dialog().getByText("Works", { exact: true }).waitFor();
    const result = await dialog().innerText();
    expect(result).toMatch(/Kind\s+vLLM/);
    expect(result).toMatch(/Version\s+0\.12\.0/);
    expect(result).toMatch(/Latency\s+[\d.]+ m?s/);
    expect(result).toMatch(/qwen-32b\s+chat, completions\s+8,192 tokens/);
    // The server chooses the names of its models, so they may be hostile.
    expect(result).toContain(hostile);
    expect(await page.evaluate(() => "__ran" in window)).toBe(false);
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "upstreams-add");
    await confirm("Add upstream");
    await row("gpu-2", "qwen-32b").getByText("Ready").waitFor();
    expect(added.requests.at(-1)?.headers["authorization"]).toBe("Bearer sk-secret-of-the-upstream");
    expect(added.requests.at(-1)?.headers["x-team"]).toBe("search");
    expect(await ask(dashboard.service, "qwen-32b")).toBe(200);
    expect(await card("gpu-2").innerText()).toMatch(
      /Source\s+Added here[\s\S]*Native APIs\s+responses[\s\S]*Connect 2\.5 s[\s\S]*x-team/,
    );
    expect(await page.content()).not.toContain("sk-secret");
    await takePictures(page, "upstreams");

    await act("Edit", "gpu-2");
    await dialog().getByText("Headers, timeouts, native APIs and share of requests").click();
    expect(await dialog().getByLabel("Connect (s)").inputValue()).toBe("2.5");
    await dialog().getByLabel("Weight").fill("3");
    await dialog().getByLabel("Priority").fill("2");
    await confirm("Save");
    await dialog().waitFor({ state: "detached" });
    await expect.poll(() => row("gpu-2", "qwen-32b").innerText()).toMatch(/\t3\t2\t/);

    await page.getByRole("button", { name: "Drain gpu-2/qwen-32b", exact: true }).click();
    await row("gpu-2", "qwen-32b").getByText("Draining", { exact: true }).waitFor();
    expect(await ask(dashboard.service, "qwen-32b")).not.toBe(200);
    await page.getByRole("button", { name: "Undo drain gpu-2/qwen-32b" }).click();
    await row("gpu-2", "qwen-32b").getByText("Ready").waitFor();
    expect(await ask(dashboard.service, "qwen-32b")).toBe(200);

    await act("Delete", "gpu-2");
    expect(await accessibilityFaults(page)).toEqual([]);
    await confirm("Cancel");
    await act("Delete", "gpu-2");
    await confirm("Delete");
    await card("gpu-2").waitFor({ state: "detached" });
    expect(await ask(dashboard.service, "qwen-32b")).toBe(404);
  });

  it("tests an existing upstream, and shows the problem and a fix for a server that does not answer", async () => {
    await act("Test", "file");
    await dialog().getByText("Works", { exact: true }).waitFor();
    await visit.page.keyboard.press("Escape");

    await visit.page.getByRole("button", { name: "Add upstream" }).click();
    await dialog().getByLabel("Name").fill("away");
    // Nothing listens on port 1.
    await dialog().getByLabel("URL").fill("http://127.0.0.1:1/v1");
    await confirm("Test");
    await dialog().getByText("Failed", { exact: true }).waitFor();
    expect(await dialog().innerText()).toMatch(/cannot be reached[\s\S]*To fix it: start the server, or correct/);
    await confirm("Add upstream");
    expect(await dialog().getByRole("alert").innerText()).toContain("choose its kind");
    await dialog().getByLabel("Kind").selectOption("vLLM");
    await confirm("Add upstream");
    await card("away").waitFor();
    expect(await accessibilityFaults(visit.page)).toEqual([]);
    await act("Delete", "away");
    await confirm("Delete");
    await card("away").waitFor({ state: "detached" });
  });

  it("a viewer sees everything, can change nothing, and has no buttons for it (SEC-2)", async () => {
    const viewer = await signInViewer(dashboard);
    onTestFinished(() => viewer.close());
    visit = viewer;
    await viewer.go("upstreams");
    await row("file", "big").getByText("Ready").waitFor();
    const main = viewer.page.getByRole("main");
    expect(await main.getByRole("button").count()).toBe(0);
    const refused = await viewer.page.evaluate(async () => {
      const headers = { "content-type": "application/json", "connect-protocol-version": "1" };
      const body = JSON.stringify({ id: "file/llama-70b", drain: true });
      const rpc = "/unified.admin.v1.UpstreamService/DrainDeployment";
      return (await fetch(rpc, { method: "POST", headers, body })).status;
    });
    expect(refused).toBe(403);
    for (const [page, heading] of [
      ["settings/keys", "API keys"],
      ["settings/webhooks", "Webhooks"],
      ["models", "Models"],
      ["usage", "Usage"],
      ["audit", "Audit"],
    ] as const) {
      await viewer.go(page);
      await viewer.page.getByRole("heading", { level: 1, name: heading }).waitFor();
      await expect.poll(() => viewer.page.getByText("Loading…").count()).toBe(0);
      const buttons = main.getByRole("button", { name: /create|add|pull a|change password|revoke|delete|actions/i });
      expect([heading, await buttons.count()]).toEqual([heading, 0]);
    }
    expect(viewer.complaints).toEqual(noComplaints);
  });
});

/** A window with a session of a viewer. */
async function signInViewer({ service, visit: open }: DashboardRun): Promise<Visit> {
  const token = "v".repeat(43);
  const nowMs = Date.now();
  await service.service.parts.state.sessions.insert({
    id: "ses_viewer",
    tokenHash: sha256Hex(token),
    user: "viewer",
    role: "viewer",
    createdAtMs: nowMs,
    lastSeenAtMs: nowMs,
    expiresAtMs: nowMs + 3_600_000,
    address: "127.0.0.1",
    userAgent: "test",
  });
  const viewer = await open();
  await viewer.page.context().addCookies([{ name: "uis_session", value: token, url: service.http }]);
  return viewer;
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("upstreams page of a service without upstreams", () => {
  it("explains how to add an upstream", async () => {
    const unused = await startDashboard();
    onTestFinished(() => unused.close());
    visit = await unused.visitSignedIn();
    await visit.go("upstreams");
    await visit.page.getByText("No upstreams yet.").waitFor();
    expect(await accessibilityFaults(visit.page)).toEqual([]);
    expect(visit.complaints).toEqual(noComplaints);
  });
});
