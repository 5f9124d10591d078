import type { EndpointChoices } from "./endpoint-input.js";
import type { EndpointRecord } from "./endpoint-store.js";

/** What the audit says of a new endpoint. */
export function endpointDetails(record: EndpointRecord): Record<string, string> {
  const { url, events, description, status, maxInFlight } = record;
  return { account: record.account, ...changedDetails({ url, events, description, status, maxInFlight }) };
}

/** What the audit says of a changed endpoint: the new values of what was changed. */
export function changedDetails(choices: Partial<EndpointChoices>): Record<string, string> {
  const { url, events, description, status, maxInFlight } = choices;
  return {
    // Path and query of a receiver's URL are often what opens it, so they are no text for a record.
    ...(url === undefined ? {} : { url_origin: new URL(url).origin }),
    ...(events === undefined ? {} : { events: events.join(",") }),
    ...(description === undefined ? {} : { description }),
    ...(status === undefined ? {} : { status }),
    ...(maxInFlight === undefined ? {} : { max_in_flight: String(maxInFlight) }),
  };
}
