import { existsSync } from "node:fs";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { type RunningService, type StartOptions, startService } from "../start-service.js";
import { openChromium } from "./chromium.js";
import { type Complaints, collectComplaints } from "./complaints.js";

/** A browser window of a test. */
export interface Visit {
  readonly page: Page;
  /** Violations in this window. */
  readonly complaints: Complaints;
  /** Opens a page of the dashboard: `keys`, `usage?by=day`; empty for the overview. Resolves when it is loaded. */
  go(page: string): Promise<void>;
  close(): Promise<void>;
}

export interface VisitOptions extends BrowserContextOptions {
  /** URL of a proxy in front of the service, with or without a path. Default: the service's own URL. */
  readonly at?: string;
}

export interface DashboardRun {
  readonly service: RunningService;
  readonly browser: Browser;
  /** A new window without a session. */
  visit(options?: VisitOptions): Promise<Visit>;
  /** A new window with a session of the administrator. */
  visitSignedIn(options?: VisitOptions): Promise<Visit>;
  close(): Promise<void>;
}

export interface DashboardOptions extends StartOptions {
  /** Command line arguments of the browser. */
  readonly browserArgs?: readonly string[];
}

/** Starts a service with the last build of the dashboard, and a browser. Rejects if there is no build. */
export async function startDashboard({ browserArgs = [], ...options }: DashboardOptions = {}): Promise<DashboardRun> {
  if (!existsSync("dist/dashboard/index.html")) throw new Error("the dashboard is not built: npm run build");
  const service = await startService(options);
  const browser = await openChromium(browserArgs);

  async function visit(options: VisitOptions = {}, token: string | null = null): Promise<Visit> {
    const { at = service.http, ...settings } = options;
    const { origin } = new URL(at);
    const context = await browser.newContext({ ...settings, ignoreHTTPSErrors: true });
    const complaints = await collectComplaints(context, origin);
    if (token !== null) {
      const cookie = {
        name: "uis_session",
        value: token,
        url: origin,
        httpOnly: true,
        sameSite: "Strict",
      } as const;
      await context.addCookies([cookie]);
    }
    const page = await context.newPage();
    return {
      page,
      complaints,
      async go(name) {
        await page.goto(`${at}/dashboard/${name}`);
      },
      close: () => context.close(),
    };
  }

  return {
    service,
    browser,
    visit: (settings) => visit(settings),
    async visitSignedIn(settings) {
      // Skips the password hash, which is slow on purpose; tests of the sign-in itself use the page.
      const from = { address: "127.0.0.1", userAgent: settings?.userAgent ?? "test" };
      const { token } = await service.service.parts.sessions.begin("admin", from);
      return visit(settings, token);
    },
    async close() {
      await browser.close();
      await service.close();
    },
  };
}
