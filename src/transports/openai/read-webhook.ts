import type { NewEndpoint } from "../../domain/webhooks/endpoint-input.js";
import { type JsonObject, missingField } from "./json-object.js";

/** Reads the body of `POST /v1/webhooks`; its values are for the domain to check. Throws ServiceError. */
export function readWebhook(body: JsonObject): NewEndpoint {
  const url = body.requiredString("url");
  const events = body.strings("events");
  if (events === undefined) throw missingField("events");
  return {
    account: "",
    url,
    events,
    description: body.string("description") ?? "",
    status: body.string("status") ?? null,
    maxInFlight: body.int32("max_in_flight") ?? null,
  };
}

/** Fields of the body that are known. */
export const webhookFields: ReadonlySet<string> = new Set(["url", "events", "description", "status", "max_in_flight"]);
