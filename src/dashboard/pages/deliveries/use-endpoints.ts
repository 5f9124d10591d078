import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { call } from "../../api.js";
import { useData } from "../../use-data.js";

/** The endpoints of an account, empty until they are known and where they cannot be had: they only help to choose. */
export function useEndpoints(account: string): readonly WebhookEndpointJson[] {
  const { value } = useData(
    (signal) => call("unified.webhook.v1.WebhookEndpointService/ListWebhookEndpoints", { account }, signal),
    [account],
  );
  return value?.webhookEndpoints ?? [];
}
