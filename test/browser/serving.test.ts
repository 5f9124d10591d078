import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { hasChromium } from "../support/browser/chromium.js";
import { noComplaints } from "../support/browser/complaints.js";
import { type DashboardRun, startDashboard, type Visit } from "../support/browser/dashboard.js";
import { startPrefixProxy } from "../support/browser/prefix-proxy.js";
import { makeAuthority } from "../support/receivers/authority.js";
import { makeCertificates } from "../support/redis/certificates.js";

const password = "correct horse battery";
/** What the first page may weigh, compressed. */
const scriptBytesMax = 60 * 1024;

let dashboard: DashboardRun;

async function signIn({ page }: Visit): Promise<void> {
  await page.getByLabel("Password of the administrator").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium)("what browsers get", () => {
  beforeAll(async () => {
    dashboard = await startDashboard({ env: { UIS_ADMIN_PASSWORD: password } });
  });
  afterAll(() => dashboard?.close());

  it("KEY-22 SEC-21: all of it works behind a proxy that speaks TLS and serves it below a path", async () => {
    const authority = makeAuthority();
    const proxy = await startPrefixProxy(dashboard.service.http, "/tools/uis", authority.issue(["127.0.0.1"]));
    onTestFinished(() => {
      proxy.close();
      authority.close();
    });
    const visit = await dashboard.visit({ at: proxy.at });
    const { page, complaints } = visit;
    await page.goto(`${proxy.at}/dashboard`);
    await page.waitForURL(`${proxy.at}/dashboard/`);
    await signIn(visit);
    await page.getByRole("link", { name: "Audit" }).click();
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    expect(page.url()).toBe(`${proxy.at}/dashboard/audit`);
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    expect(complaints).toEqual(noComplaints);
    await visit.close();
  });

  it("KEY-22: on a listener with TLS the cookie is for TLS and this host alone", async () => {
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
    expect(await visit.page.context().cookies()).toMatchObject([
      { name: "__Host-uis_session", secure: true, httpOnly: true, sameSite: "Strict", path: "/" },
    ]);
    expect(visit.complaints).toEqual(noComplaints);
  });

  it("SEC-21: the page of the API shows the description without a foreign request or a breach of its policy", async () => {
    const { page, complaints, close } = await dashboard.visit();
    await page.goto(`${dashboard.service.http}/docs`);
    await page.getByText("/v1/chat/completions").first().click();
    await page.getByRole("button", { name: "Try it out" }).first().waitFor();
    expect(complaints).toEqual(noComplaints);
    await close();
  });

  it("SEC-21: what the policy forbids is stopped by the browser, and told", async () => {
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
          // Trusted types throw.
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

  it("the first page loads at most 60 KB of script, compressed, and shows itself within a second", async () => {
    const { page, complaints, close } = await dashboard.visitSignedIn();
    const bytes: number[] = [];
    page.on("response", async (response) => {
      if (response.url().endsWith(".js")) bytes.push(gzipSync(await response.body()).length);
    });
    await page.goto(`${dashboard.service.http}/dashboard/`, { waitUntil: "networkidle" });
    const firstPaintMs = await page.evaluate(
      () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.POSITIVE_INFINITY,
    );
    expect(bytes.reduce((sum, own) => sum + own, 0)).toBeLessThanOrEqual(scriptBytesMax);
    expect(firstPaintMs).toBeLessThan(1_000);
    expect(complaints).toEqual(noComplaints);
    await close();
  });
});
