import { useState } from "preact/hooks";
import type { GetDeliveryResponseJson } from "../../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { call } from "../../api.js";
import { time } from "../../format.js";
import { usePlace } from "../../location.js";
import { Facts } from "../../ui/facts.js";
import { Loading, Problem } from "../../ui/feedback.js";
import { PageLink } from "../../ui/page-link.js";
import { Attempts } from "./attempts.js";
import { canRetry } from "./can-retry.js";
import { queryOf } from "./delivery-query.js";
import { DeliveryState } from "./delivery-state.js";
import { stateOf } from "./delivery-words.js";
import { Due } from "./due.js";
import { Payload } from "./payload.js";
import { Retry } from "./retry.js";
import { useLive } from "./use-live.js";

/** One delivery: where it stands, its attempts and what is posted. */
export function DeliveryView({ id }: { readonly id: string }) {
  const { query } = usePlace();
  const { value, error, reload } = useLive(
    (signal) => call("unified.webhook.v1.DeliveryService/GetDelivery", { id }, signal),
    [id],
    ({ delivery = {} }) => stateOf(delivery).isOpen,
  );
  return (
    <div class="stack">
      <div>
        <PageLink page="deliveries" query={{ ...queryOf(query) }}>
          ← All deliveries
        </PageLink>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && <Found found={value} onChanged={reload} />}
    </div>
  );
}

interface FoundProps {
  readonly found: GetDeliveryResponseJson;
  readonly onChanged: () => void;
}

function Found({ found: { delivery = {}, payload = "" }, onChanged }: FoundProps) {
  const [isRetrying, setRetrying] = useState(false);
  const {
    id = "",
    account = "",
    endpointId = "",
    eventType,
    eventId,
    createdAt,
    nextAttemptAt,
    replayId = "",
  } = delivery;
  return (
    <>
      <section class="card stack" aria-label="Delivery">
        <div class="row spread">
          <h2>{eventType}</h2>
          <div role="status">
            <DeliveryState delivery={delivery} />
          </div>
        </div>
        <Facts
          isWide
          of={{
            Delivery: <code>{id}</code>,
            Event: <code>{eventId}</code>,
            Endpoint: (
              <PageLink page="deliveries" query={{ endpoint: endpointId, account }}>
                {endpointId}
              </PageLink>
            ),
            Account: account,
            Created: time(createdAt),
            "Next due": <Due at={nextAttemptAt} />,
            Replay: replayId === "" ? null : <code>{replayId}</code>,
          }}
        />
        {canRetry(delivery) && (
          <div class="row">
            <button type="button" class="primary" onClick={() => setRetrying(true)}>
              {delivery.state === "delivered" ? "Send again" : "Retry now"}
            </button>
          </div>
        )}
      </section>
      <Attempts attempts={delivery.attempts ?? []} made={delivery.attemptsMade ?? 0} />
      <Payload payload={payload} />
      {isRetrying && <Retry delivery={delivery} onDone={onChanged} onClose={() => setRetrying(false)} />}
    </>
  );
}
