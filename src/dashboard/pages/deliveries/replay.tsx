import { useState } from "preact/hooks";
import type { ReplayDeliveriesResponseJson } from "../../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { call } from "../../lib/api.js";
import { toInstant, toLocal, wholeNumber } from "../../lib/format.js";
import { PageLink } from "../../lib/location.js";
import { Dialog } from "../../ui/dialog.js";
import { Check, Form, TextField } from "../../ui/form.js";
import { Picker } from "../../ui/picker/picker.js";
import type { DeliveryQuery } from "./delivery.js";
import { endpointChoices, useEndpoints } from "./delivery-filter.js";

/** The most deliveries that one call queues. */
const queuedMax = 10_000;

export interface ReplayProps {
  /** Prefills endpoint and time range; its account bounds the choice of endpoints. */
  readonly query: DeliveryQuery;
  /** Called when deliveries were queued. */
  readonly onQueued: () => void;
  readonly onClose: () => void;
}

/** Replays the deliveries of an endpoint. Repeating the call queues nothing twice and returns the progress. */
export function Replay({ query, onQueued, onClose }: ReplayProps) {
  const endpoints = useEndpoints(query.account);
  const [endpointId, setEndpointId] = useState(query.endpoint);
  const [from, setFrom] = useState(toLocal(query.from));
  const [before, setBefore] = useState(toLocal(query.before));
  const [includeDelivered, setIncludeDelivered] = useState(false);
  const [restartSchedule, setRestart] = useState(false);
  const [progress, setProgress] = useState<ReplayDeliveriesResponseJson | null>(null);
  const replay = async (): Promise<void> => {
    const createdFrom = toInstant(from);
    const createdBefore = progress?.createdBefore ?? toInstant(before);
    const answer = await call("unified.webhook.v1.DeliveryService/ReplayDeliveries", {
      endpointId,
      account: endpoints?.find(({ id }) => id === endpointId)?.account ?? query.account,
      includeDelivered,
      restartSchedule,
      ...(createdFrom === null ? {} : { createdFrom }),
      ...(createdBefore === null ? {} : { createdBefore }),
    });
    setProgress(answer);
    onQueued();
  };
  return (
    <Dialog title="Replay deliveries" onClose={onClose}>
      <Form
        verb={progress === null ? "Replay" : verbAfter(progress)}
        send={replay}
        {...(progress === null ? { onCancel: onClose } : {})}
      >
        {progress === null ? (
          <>
            <Picker
              label="Endpoint"
              name="endpoint_id"
              choices={endpointChoices(endpoints)}
              value={endpointId}
              onChange={setEndpointId}
            />
            <TextField
              label="Created from"
              name="created_from"
              type="datetime-local"
              required
              value={from}
              onChange={setFrom}
            />
            <TextField
              label="Created before"
              name="created_before"
              type="datetime-local"
              hint="Defaults to now."
              value={before}
              onChange={setBefore}
            />
            <Check isOn={includeDelivered} onChange={setIncludeDelivered}>
              Include delivered ones. By default, only permanently failed deliveries are replayed.
            </Check>
            <Check isOn={restartSchedule} onChange={setRestart}>
              Restart the retry schedule of each delivery.
            </Check>
          </>
        ) : (
          <ReplayProgress progress={progress} onShow={onClose} />
        )}
      </Form>
    </Dialog>
  );
}

/** Label of the button for the next call: more deliveries may remain if this call queued the maximum. */
function verbAfter({ queued = 0 }: ReplayDeliveriesResponseJson): string {
  return queued >= queuedMax ? "Queue more" : "Refresh";
}

interface ReplayProgressProps {
  readonly progress: ReplayDeliveriesResponseJson;
  /** Called when the link to its deliveries is followed. */
  readonly onShow: () => void;
}

function ReplayProgress({ progress, onShow }: ReplayProgressProps) {
  const { queued = 0, waiting = 0, delivered = 0, failed = 0, replayId = "" } = progress;
  const all = waiting + delivered + failed;
  if (all === 0) return <p role="status">No deliveries to replay in this range.</p>;
  return (
    <div class="stack" role="status">
      <p>
        {wholeNumber(queued)} queued now. Whole replay: {wholeNumber(delivered)} delivered, {wholeNumber(failed)}{" "}
        failed, {wholeNumber(waiting)} in progress.
      </p>
      <progress aria-label="Replay progress" max={all} value={delivered + failed} />
      <p>
        <PageLink page="deliveries" query={{ replay: replayId }} onFollow={onShow}>
          Show deliveries
        </PageLink>{" "}
        <span class="faint">Sends up to 50 per second; each call queues up to 10,000.</span>
      </p>
    </div>
  );
}
