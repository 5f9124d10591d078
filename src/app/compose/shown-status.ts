import type { CallFigures } from "../../domain/call/observer.js";
import { SharedStatus } from "../../domain/service/all-workers.js";
import { OverviewFeed, type ServiceStatus } from "../../domain/service/service-status.js";
import { type HistoryRange, StatusHistory } from "../../domain/service/status-history.js";
import type { Context } from "./context.js";

/** The status that administrators see: that of this process, or in a worker the sum of all workers. */
export function composeShownStatus(
  { clock, backgroundClock, lifecycle, worker }: Context,
  own: ServiceStatus,
  calls: CallFigures,
  chargedNano: () => number,
) {
  const status = worker === null ? own : new SharedStatus(own, worker);
  const overview = new OverviewFeed({ status, clock });
  if (worker !== null) return { status, overview, history: { of: (range: HistoryRange) => worker.history(range) } };
  const history = new StatusHistory({ clock: backgroundClock, calls, chargedNano });
  lifecycle.onClose("history", () => history.close());
  return { status, overview, history };
}
