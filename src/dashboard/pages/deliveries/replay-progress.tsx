import type { ReplayDeliveriesResponseJson } from "../../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { wholeNumber } from "../../format.js";
import { PageLink } from "../../ui/page-link.js";

export interface ReplayProgressProps {
  readonly progress: ReplayDeliveriesResponseJson;
  /** Its deliveries are shown instead. */
  readonly onShow: () => void;
}

/** How far a replay is, by what became of the deliveries that it has queued. */
export function ReplayProgress({ progress, onShow }: ReplayProgressProps) {
  const { queued = 0, waiting = 0, delivered = 0, failed = 0, replayId = "" } = progress;
  const all = waiting + delivered + failed;
  if (all === 0) return <p role="status">Nothing in this range is to be sent again.</p>;
  return (
    <div class="stack" role="status">
      <p>
        {wholeNumber(queued)} queued by this call. Of the whole replay {wholeNumber(delivered)} delivered,{" "}
        {wholeNumber(failed)} failed again, {wholeNumber(waiting)} on their way.
      </p>
      <progress aria-label="Part of the replay that is done" max={all} value={delivered + failed} />
      <p>
        <PageLink page="deliveries" query={{ replay: replayId }} onFollow={onShow}>
          Show its deliveries
        </PageLink>{" "}
        <span class="faint">At most 50 a second are sent, and 10,000 queued by a call.</span>
      </p>
    </div>
  );
}
