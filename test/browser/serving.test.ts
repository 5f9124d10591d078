import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { hasChromium } from "../support/browser/chromium.js";
import { noComplaints } from "../support/browser/complaints.js";
import { type DashboardRun, startDashboard, type Visit } from "../support/browser/dashboard.js";
import { startPrefixProxy } from "../support/browser/prefix-proxy.js";
import { eventually } from "../support/eventually.js";
import { makeAuthority } from "../support/receivers/authority.js";
import { makeCertificates } from "../support/redis/certificates.js";
import { byTier } from "../support/tier.js";

const password = "correct horse battery";

/** The body of the opened operation, as Swagger shows it. */
const exampleOn = (page: Page) => page.locator(".opblock-post .body-param__example, .opblock-post .example").first();
/** Limits of compressed bytes for the first page: its script, and everything that it loads. */
const bytesMax = { script: 60 * 1024, all: 80 * 1024 };

/** Long in the short tier, because other tests run at the same time. */
const firstPaintMaxMs = byTier({ ci: 5_000, long: 1_000 });

let dashboard: DashboardRun;

/** A window that reaches the service through a proxy that terminates TLS and strips the path prefix. */
async function visitThroughProxy(run: DashboardRun, prefix: string): Promise<Visit & { readonly at: string }> {
  const authority = makeAuthority();
  const { at, close } = await startPrefixProxy(run.service.http, prefix, authority.issue(["127.0.0.1"]));
  const visit = await run.visit({ at });
  onTestFinished(async () => {
    await visit.close();
    close();
    authority.close();
  });
  return { ...visit, at };
}

/** Status of a change requested with this window's session from a page of the given origin. */
async function statusFrom({ page, at }: Visit & { readonly at: string }, origin: string): Promise<number> {
  const url = `${at}/unified.admin.v1.ApiKeyService/CreateApiKey`;
  const data = { name: "from a page", scope: "SCOPE_READ" };
  return (await page.context().request.post(url, { data, headers: { origin } })).status();
}

/** First paint and first contentful paint in milliseconds since the start of navigation. */
function firstPaints(page: Page): Promise<readonly (readonly [name: string, ms: number])[]> {
  return page.evaluate(() =>
    ["first-paint", "first-contentful-paint"].map((name) => {
      const [entry] = performance.getEntriesByName(name);
      return [name, entry?.startTime ?? Number.POSITIVE_INFINITY] as const;
    }),
  );
}

const secureCookies = ["__Host-uis_browser", "__Host-uis_session"].map((name) => ({
  name,
  secure: true,
  httpOnly: true,
  sameSite: "Strict",
  path: "/",
}));

const sortedCookies = async (page: Page) =>
  (await page.context().cookies()).toSorted((a, b) => a.name.localeCompare(b.name));

async function signIn({ page }: Visit): Promise<void> {
  await page.getByLabel("Administrator password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("dashboard files in browsers", () => {
  beforeAll(async () => {
    dashboard = await startDashboard({ env: { UIS_ADMIN_PASSWORD: password } });
  });
  afterAll(() => dashboard?.close());

  it("the dashboard works behind a TLS proxy and below a path prefix (KEY-22, SEC-21)", async () => {
    const visit = await visitThroughProxy(dashboard, "/tools/uis");
    const { page, complaints } = visit;
    const { origin } = new URL(visit.at);
    await page.goto(`${visit.at}/dashboard`);
    await page.waitForURL(`${visit.at}/dashboard/`);
    await signIn(visit);
    expect(await sortedCookies(page)).toMatchObject(secureCookies);
    await page.getByRole("link", { name: "Audit" }).click();
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    expect(page.url()).toBe(`${visit.at}/dashboard/audit`);
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    await visit.go("keys?state=revoked");
    await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
    expect(page.url()).toBe(`${visit.at}/dashboard/settings/keys?state=revoked`);
    await page.reload();
    await page.getByRole("link", { name: /^Webhooks/ }).click();
    await page.getByRole("heading", { level: 1, name: "Webhooks" }).waitFor();
    expect(page.url()).toBe(`${visit.at}/dashboard/settings/webhooks`);
    await page.getByRole("link", { name: /^Overview/ }).click();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    expect(complaints).toEqual(noComplaints);
    expect(await statusFrom(visit, origin)).toBe(200);
    expect(await statusFrom(visit, "https://evil.example")).toBe(403);
  });

  it("streams pass through a TLS proxy with a path prefix without buffering, with allowed_hosts set (KEY-22)", async () => {
    const models = [{ id: "slow", engine: "scripted", scripted: { text: "Word. ", tokens: 400, token_delay_ms: 40 } }];
    const own = await startDashboard({
      config: { models, server: { allowed_hosts: ["127.0.0.1"] } },
      env: { UIS_ADMIN_PASSWORD: password },
    });
    onTestFinished(() => own.close());
    const visit = await visitThroughProxy(own, "/uis");
    const { page, complaints } = visit;
    await visit.go("");
    await signIn(visit);
    await visit.go("playground?model=slow");
    await page.getByLabel("Message").fill("Go on");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText(/^(Word\. ){3}/).waitFor();
    expect((await own.service.debugState()).requests.running).toBe(1);
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("status").getByText("Stopped.").waitFor();
    await eventually(async () => (await own.service.debugState()).requests.running === 0);
    expect(complaints).toEqual(noComplaints);
  });

  it("a TLS listener sets a Secure, host-only session cookie (KEY-22)", async () => {
    const folder = mkdtempSync(join(tmpdir(), "certificates-"));
    const { certFile, keyFile } = makeCertificates(folder);
    const own = await startDashboard({
      config: { server: { tls: { cert_file: certFile, key_file: keyFile } } },
      env: { UIS_ADMIN_PASSWORD: password },
    });
    onTestFinished(async () => {
      await own.close();
      rmSync(folder, { recursive: true });
    });
    const visit = await own.visit();
    await visit.go("");
    await signIn(visit);
    expect(await sortedCookies(visit.page)).toMatchObject(secureCookies);
    expect(visit.complaints).toEqual(noComplaints);
  });

  it("the API documentation page makes no third-party request and violates no policy (SEC-21)", async () => {
    const { page, complaints, close } = await dashboard.visitSignedIn();
    await page.goto(`${dashboard.service.http}/docs`);
    await page.getByText("/v1/embeddings", { exact: true }).first().click();
    await page.getByRole("button", { name: "Try it out" }).first().waitFor();
    // The dashboard's session is allowed to list the models.
    await expect.poll(() => exampleOn(page).innerText()).toContain('"model": "test-embed"');
    expect(complaints).toEqual(noComplaints);
    await close();
  });

  it("the API documentation page names a served model for an API key, and keeps the proxy's path prefix", async () => {
    const authority = makeAuthority();
    const proxy = await startPrefixProxy(dashboard.service.http, "/tools/uis", authority.issue(["127.0.0.1"]));
    onTestFinished(() => {
      proxy.close();
      authority.close();
    });
    const { page, complaints, close } = await dashboard.visit({ at: proxy.at });
    await page.goto(`${proxy.at}/docs`);
    await page.getByText("/health", { exact: true }).first().click();
    await page.getByRole("button", { name: "Try it out" }).first().click();
    const answer = page.waitForResponse((response) => response.url().endsWith("/health"));
    await page.getByRole("button", { name: "Execute" }).first().click();
    expect([(await answer).url(), (await answer).status()]).toEqual([`${proxy.at}/health`, 200]);
    await page.getByText("/v1/chat/completions", { exact: true }).first().click();
    await expect.poll(() => exampleOn(page).innerText()).toContain('"model": "qwen3-0.6b"');
    await page.getByRole("button", { name: "Authorize" }).first().click();
    await page.locator("#auth-bearer-value").fill(dashboard.service.key);
    await page.getByRole("button", { name: "Apply credentials" }).first().click();
    await expect.poll(() => exampleOn(page).innerText()).toContain('"model": "test-chat"');
    expect(complaints).toEqual(noComplaints);
    await close();
  });

  it("the browser blocks and reports content that the content security policy forbids (SEC-21)", async () => {
    const { page, complaints, go, close } = await dashboard.visit();
    await go("");
    await page.evaluate(() => {
      const add = (tag: string, properties: object) =>
        document.body.append(Object.assign(document.createElement(tag), properties));
      add("img", { src: "https://evil.example/x.png" });
      add("iframe", { src: "https://evil.example/" });
      add("style", { textContent: "body { color: red }" });
      add("link", { rel: "stylesheet", href: "https://evil.example/x.css" });
      const tries = [
        () => Object.assign(document.body, { innerHTML: "<b>markup</b>" }),
        () => add("script", { textContent: "window.__ran = 1" }),
      ];
      for (const attempt of tries) {
        try {
          attempt();
        } catch {
          // Trusted Types makes the assignment throw.
        }
      }
      return fetch("https://evil.example/").catch(() => {});
    });
    await expect
      .poll(() => new Set(complaints.policy.map((report) => report.split(" ")[0])))
      .toEqual(new Set(["connect-src", "frame-src", "img-src", "require-trusted-types-for", "style-src-elem"]));
    expect(await page.evaluate(() => "__ran" in window)).toBe(false);
    await close();
  });

  it("the first page loads at most 60 KB of script, 80 KB in all, and paints within a second", async () => {
    const visit = await dashboard.visit();
    const { page, complaints } = visit;
    const bodies: Promise<{ readonly isScript: boolean; readonly bytes: number }>[] = [];
    page.on("requestfinished", (request) => {
      const isScript = request.resourceType() === "script";
      bodies.push(request.sizes().then((sizes) => ({ isScript, bytes: sizes.responseBodySize })));
    });
    await visit.go("");
    await signIn(visit);
    await page.getByRole("img").locator("canvas").waitFor();
    const loaded = await Promise.all(bodies);
    const sumOf = (parts: typeof loaded) => parts.reduce((sum, { bytes }) => sum + bytes, 0);
    const scripts = loaded.filter(({ isScript }) => isScript);
    expect(scripts.length).toBeGreaterThan(2);
    expect(sumOf(scripts)).toBeLessThanOrEqual(bytesMax.script);
    expect(sumOf(loaded)).toBeLessThanOrEqual(bytesMax.all);
    await visit.go("");
    await page.getByRole("img").locator("canvas").waitFor();
    for (const [paint, ms] of await firstPaints(page)) expect([paint, ms < firstPaintMaxMs]).toEqual([paint, true]);
    expect(complaints).toEqual(noComplaints);
    await visit.close();
  });
});
