import { sha1Hex } from "../../lib/digest.js";

/**
 * Id of the delivery of an event to an endpoint: `dlv_` and 32 hex digits of SHA-1 over `<event id>/<endpoint id>`. Kept
 * like this by every driver; SHA-1 because it is the digest that a Redis script can compute. No secret hangs on it.
 */
export function deliveryId(eventId: string, endpointId: string): string {
  return `dlv_${sha1Hex(`${eventId}/${endpointId}`).slice(0, 32)}`;
}
