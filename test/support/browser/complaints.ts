import type { BrowserContext, Page } from "playwright-core";

/** What a page does that no page of ours may do. All lists are empty when nothing is wrong. */
export interface Complaints {
  /** Reports of the content security policy: the directive and what it stopped. */
  readonly policy: string[];
  /** Errors on the console, and errors that nobody caught. */
  readonly errors: string[];
  /** Requests to any other server. */
  readonly foreign: string[];
  /** `alert` and the like. */
  readonly dialogs: string[];
}

/** Nothing is wrong. */
export const noComplaints: Complaints = { policy: [], errors: [], foreign: [], dialogs: [] };

/** A status that is an error is an answer like others: whether a page copes with it is not seen on the console. */
const answered = /^Failed to load resource: the server responded with a status of/;
const reported = "__policyReport";

/** Listens to all pages of the context, from before their first script on. `origin`: the service's own. */
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
