import { useState } from "preact/hooks";
import type { WebhookEndpointJson } from "../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { call } from "../api.js";
import { go, usePlace } from "../location.js";
import { AccountChoice } from "../ui/account-choice.js";
import { Empty, Loading, Problem } from "../ui/feedback.js";
import { useData } from "../use-data.js";
import { AddEndpoint } from "./webhooks/add-endpoint.js";
import { EndpointCard } from "./webhooks/endpoint-card.js";
import { type EndpointAction, EndpointWindow } from "./webhooks/endpoint-windows.js";
import { VerifyHelp } from "./webhooks/verify-help.js";
import "./webhooks/webhooks.css";

type Opened = { readonly action: "add" } | { readonly action: EndpointAction; readonly endpoint: WebhookEndpointJson };

/** How an endpoint fares changes with every delivery. */
const refreshMs = 10_000;

/** The endpoints of one account: the receivers of its events. */
export function Webhooks() {
  const account = usePlace().query.get("account") ?? "";
  const [opened, setOpened] = useState<Opened | null>(null);
  const { value, error, reload } = useData(
    (signal) => call("unified.webhook.v1.WebhookEndpointService/ListWebhookEndpoints", { account }, signal),
    [account],
    refreshMs,
  );
  const endpoints = value?.webhookEndpoints ?? [];
  const close = (): void => setOpened(null);
  return (
    <div class="stack">
      <div class="row spread bottom">
        <AccountChoice account={account} none="default" onChoose={(chosen) => go("webhooks", { account: chosen })} />
        <button type="button" class="primary" onClick={() => setOpened({ action: "add" })}>
          Add endpoint
        </button>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && endpoints.length === 0 && <NoEndpoints account={account} />}
      <ul class="stack endpoint-list">
        {endpoints.map((endpoint) => (
          <EndpointCard key={endpoint.id} endpoint={endpoint} onAction={(action) => setOpened({ action, endpoint })} />
        ))}
      </ul>
      <VerifyHelp />
      {opened?.action === "add" && <AddEndpoint account={account} onMade={reload} onClose={close} />}
      {opened !== null && opened.action !== "add" && (
        <EndpointWindow action={opened.action} endpoint={opened.endpoint} onDone={reload} onClose={close} />
      )}
    </div>
  );
}

function NoEndpoints({ account }: { readonly account: string }) {
  return (
    <Empty>
      The account “{account || "default"}” tells nobody of its events. Add an endpoint here, or with{" "}
      <code>uis webhooks add --url https://… --events request.completed,request.failed</code>.
    </Empty>
  );
}
