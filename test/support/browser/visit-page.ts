import { expect, onTestFinished } from "vitest";
import { noComplaints } from "./complaints.js";
import type { DashboardRun, Visit, VisitOptions } from "./dashboard.js";

/**
 * Opens a page as the signed-in administrator until the test ends. The test fails if the browser reported violations. With
 * null, only the window is opened.
 */
export async function visitPage(
  dashboard: Pick<DashboardRun, "visitSignedIn">,
  name: string | null,
  options?: VisitOptions,
): Promise<Visit> {
  const visit = await dashboard.visitSignedIn(options);
  onTestFinished(async () => {
    expect(visit.complaints).toEqual(noComplaints);
    await visit.close();
  });
  if (name !== null) await visit.go(name);
  return visit;
}
