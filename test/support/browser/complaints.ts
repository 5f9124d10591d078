import type { BrowserContext, Page } from "playwright-core";

/** Violations by the pages of a browser context. All lists are empty if there are none. */
export interface Complaints {
  /** Content security policy reports: the directive and the blocked URL or code. */
  readonly policy: string[];
  /** Console errors and uncaught exceptions. */
  readonly errors: string[];
  /** Requests to other servers. */
  readonly foreign: string[];
  /** Texts of `alert` and other dialogs. */
  readonly dialogs: string[];
}

/** No violations. */
export const noComplaints: Complaints = { policy: [], errors: [], foreign: [], dialogs: [] };

/** Console messages about error statuses are expected: tests check how pages handle them. */
const answered = /^Failed to load resource: the server responded with a status of/;
const reported = "__policyReport";

/** Collects violations of all pages of the context, from their first script on. `origin` is the service's own. */
export async function collectComplaints(context: BrowserContext, origin: string): Promise<Complaints> {
  const complaints: Complaints = { policy: [], errors: [], foreign: [], dialogs: [] };
  await context.exposeFunction(reported, (report: string) => complaints.policy.push(report));
  await context.addInitScript((name) => {
    document.addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI, sample, sourceFile }) => {
      const report = (window as unknown as Record<string, (text: string) => void>)[name];
      report?.([effectiveDirective, blockedURI, sample, sourceFile].join(" "));
    });
  }, reported);
  context.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith("data:")) complaints.foreign.push(url);
  });
  context.on("page", (page) => listen(page, complaints));
  return complaints;
}

function listen(page: Page, { errors, dialogs }: Complaints): void {
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !answered.test(message.text())) errors.push(message.text());
  });
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
}
