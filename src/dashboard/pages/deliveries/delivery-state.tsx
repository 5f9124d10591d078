import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import { Badge } from "../../ui/feedback.js";
import { reasonWords, stateOf } from "./delivery-words.js";

/** Where a delivery stands, and why it failed where it did. */
export function DeliveryState({ delivery }: { readonly delivery: DeliveryJson }) {
  const { word, tone } = stateOf(delivery);
  const reason = reasonWords(delivery);
  return (
    <div>
      <Badge tone={tone}>{word}</Badge>
      {reason !== "" && <div class="faint">{reason}</div>}
    </div>
  );
}
