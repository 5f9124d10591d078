import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listKeys } from "../suites/api-key-records.js";
import { hasChromium } from "../support/browser/chromium.js";
import { type Aim, type Shape, shapes } from "../support/browser/cross-site-shapes.js";
import { type DashboardRun, startDashboard, type Visit } from "../support/browser/dashboard.js";

const keys = "unified.admin.v1.ApiKeyService";
const made = { name: "made by a foreign page", scope: "SCOPE_READ_WRITE" };

let dashboard: DashboardRun;
let foreign: Server;
let visit: Visit;
/** The page of a hostile server. */
let attacker: Page;

/** Reads the audit records and keys: every change that another site could cause adds one. */
async function kept(): Promise<object> {
  const { audit, keys: store } = dashboard.service.service.parts.state;
  const { records } = await audit.list({ limit: 100, after: null });
  const all = await listKeys(store);
  return { audited: records.map(({ id }) => id), keys: all.map(({ id }) => id) };
}

const aimAt = (origin: string): Aim => ({ url: `${origin}/${keys}/CreateApiKey`, body: JSON.stringify(made) });
const portOf = (server: Server): number => (server.address() as AddressInfo).port;

async function attack(page: Page, shape: Shape, aim: Aim): Promise<void> {
  await page.evaluate(shape.act, { ...aim, detail: shape.detail });
  // Requests sent without waiting for an answer have arrived by now.
  await page.waitForTimeout(20);
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("cross-site requests while the administrator is signed in", () => {
  beforeAll(async () => {
    const hosts = ["evil.example", "rebound.example"].map((host) => `MAP ${host} 127.0.0.1`).join(",");
    dashboard = await startDashboard({ browserArgs: [`--host-resolver-rules=${hosts}`] });
    foreign = createServer((_req, res) => {
      res.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>foreign</title><body></body>");
    });
    await new Promise<void>((resolve) => foreign.listen(0, "127.0.0.1", resolve));
    visit = await dashboard.visitSignedIn();
    attacker = await visit.page.context().newPage();
  });
  afterAll(async () => {
    foreign?.close();
    foreign?.closeAllConnections();
    await dashboard?.close();
  });

  it("the request of the other tests succeeds from a dashboard page", async () => {
    const before = await kept();
    await visit.go("");
    await attack(visit.page, shapes["fetch of JSON"], aimAt(dashboard.service.http));
    expect(await kept()).not.toEqual(before);
  });

  describe.each([
    { who: "another site", host: "evil.example" },
    // Cookies ignore ports, so the browser sends the dashboard's cookie.
    { who: "another port of this host", host: "127.0.0.1" },
  ])("of $who", ({ host }) => {
    beforeAll(async () => {
      await attacker.goto(`http://${host}:${portOf(foreign)}/`);
    });

    it.each(Object.entries(shapes))("%s changes nothing (SEC-20)", async (_name, shape) => {
      const before = await kept();
      await attack(attacker, shape, aimAt(dashboard.service.http));
      expect(await kept()).toEqual(before);
    });
  });

  it("a DNS name that is rebound to the service has no session (SEC-20)", async () => {
    const { port } = new URL(dashboard.service.http);
    const rebound = `http://rebound.example:${port}`;
    await attacker.goto(`${rebound}/health`);
    const before = await kept();
    for (const shape of Object.values(shapes)) await attack(attacker, shape, aimAt(rebound));
    expect(await kept()).toEqual(before);
  });

  it("no page can frame the dashboard or keep a handle on its window (SEC-20)", async () => {
    await attacker.goto(`http://evil.example:${portOf(foreign)}/`);
    const { framed, opened } = await attacker.evaluate(async (url) => {
      const frame = document.createElement("iframe");
      frame.src = url;
      const loaded = new Promise((resolve) => {
        frame.onload = resolve;
      });
      document.body.append(frame);
      await loaded;
      const other = window.open(url);
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      return { framed: frame.contentDocument === null, opened: other?.closed };
    }, `${dashboard.service.http}/dashboard/`);
    const shown = attacker.frames().map((frame) => frame.url());
    expect(shown.filter((url) => url.includes("/dashboard"))).toEqual([]);
    expect([framed, opened]).toEqual([true, true]);
  });
});
