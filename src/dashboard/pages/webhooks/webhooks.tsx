import { AdminOnly } from "../../ui/admin-only.js";
import "./webhooks.css";
import { useId, useState } from "preact/hooks";
import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { call } from "../../lib/api.js";
import { wholeNumber } from "../../lib/format.js";
import { prefix, useLocation } from "../../lib/location.js";
import { useData } from "../../lib/use-data.js";
import { CodeBlock } from "../../ui/code.js";
import { Badge, Empty, Loading, Problem } from "../../ui/feedback.js";
import { type MenuItem, pageItem, RowMenu } from "../../ui/menu.js";
import { Facts, Moment } from "../../ui/values.js";
import { AddEndpoint, type EndpointAction, EndpointDialog } from "./endpoint-dialogs.js";
import { endpointHealth } from "./events.js";

type Opened = { readonly action: "add" } | { readonly action: EndpointAction; readonly endpoint: WebhookEndpointJson };

/** Endpoint health changes with every delivery. */
const refreshMs = 10_000;

/** The webhook endpoints of an account. */
export function Webhooks() {
  const account = useLocation().query.get("account") ?? "";
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
      <AdminOnly>
        <div class="row end">
          <button type="button" class="primary" onClick={() => setOpened({ action: "add" })}>
            Add endpoint
          </button>
        </div>
      </AdminOnly>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && endpoints.length === 0 && <NoEndpoints account={account} />}
      <ul class="stack endpoint-list">
        {endpoints.map((endpoint) => (
          <EndpointCard key={endpoint.id} endpoint={endpoint} onAction={(action) => setOpened({ action, endpoint })} />
        ))}
      </ul>
      <VerifyHelp />
      {opened?.action === "add" && <AddEndpoint account={account} onCreated={reload} onClose={close} />}
      {opened !== null && opened.action !== "add" && (
        <EndpointDialog action={opened.action} endpoint={opened.endpoint} onDone={reload} onClose={close} />
      )}
    </div>
  );
}

function NoEndpoints({ account }: { readonly account: string }) {
  return (
    <Empty>
      The account “{account || "default"}” has no endpoints yet. Add one here, or with{" "}
      <code>uis webhooks add --url https://… --events request.completed,request.failed</code>.
    </Empty>
  );
}

interface EndpointCardProps {
  readonly endpoint: WebhookEndpointJson;
  readonly onAction: (action: EndpointAction) => void;
}

/** An endpoint with its health and actions. */
function EndpointCard({ endpoint, onAction }: EndpointCardProps) {
  const { url = "", description = "" } = endpoint;
  const { status, tone, reason } = endpointHealth(endpoint);
  const titleId = useId();
  return (
    <li class="card stack" aria-labelledby={titleId}>
      <div class="row spread endpoint-head">
        <div>
          <h2 id={titleId} class="endpoint-url">
            {url}
          </h2>
          {description !== "" && <div>{description}</div>}
        </div>
        <div class="row">
          <Badge tone={tone}>{status}</Badge>
          {reason !== "" && <span class="faint">{reason}</span>}
          <RowMenu label={`Actions of ${url}`} items={actionsOf({ endpoint, onAction })} />
        </div>
      </div>
      {url.startsWith("http:") && (
        <p class="endpoint-warning">Unencrypted: without TLS, others on the network can read the events.</p>
      )}
      <EndpointFacts endpoint={endpoint} />
    </li>
  );
}

function actionsOf({ endpoint, onAction }: EndpointCardProps): readonly MenuItem[] {
  const { id = "", account = "", status } = endpoint;
  const isDisabled = status === "disabled";
  return [
    { label: "Send test event", icon: "deliveries", onSelect: () => onAction("test") },
    pageItem("Show deliveries", "deliveries", { endpoint: id, account }),
    { label: "Edit", icon: "edit", onSelect: () => onAction("edit") },
    { label: "Rotate secret", icon: "refresh", onSelect: () => onAction("rotate") },
    isDisabled
      ? { label: "Enable", onSelect: () => onAction("enable") }
      : { label: "Disable", onSelect: () => onAction("disable") },
    { label: "Delete", icon: "trash", isDanger: true, onSelect: () => onAction("delete") },
  ];
}

function EndpointFacts({ endpoint }: { readonly endpoint: WebhookEndpointJson }) {
  const { failingSince, failuresInRow, previousSecretExpiresAt, secretHint = "" } = endpoint;
  return (
    <Facts
      isWide
      of={{
        ID: <code>{endpoint.id}</code>,
        Events: (endpoint.events ?? []).join(", "),
        "Last success": <Moment at={endpoint.lastSuccessAt} none="Never" />,
        "Last failure": <Moment at={endpoint.lastFailureAt} none="Never" />,
        "Failing since":
          failingSince === undefined ? null : (
            <>
              <Moment at={failingSince} /> ({wholeNumber(failuresInRow)} consecutive failures)
            </>
          ),
        Secret: (
          <>
            <code>whsec_…{secretHint}</code>
            {previousSecretExpiresAt !== undefined && (
              <>
                ; the previous secret expires <Moment at={previousSecretExpiresAt} />
              </>
            )}
          </>
        ),
        "Max concurrency": String(endpoint.maxInFlight ?? 0),
      }}
    />
  );
}

const node = `import { verifyWebhook } from "unified-inference/webhooks";

const header = request.headers["service-signature"];
const result = verifyWebhook({ secret, header, body }); // body: the raw bytes
if (!result.valid) return response.writeHead(400).end(result.reason);`;

const python = `import hashlib, hmac, time

fields = [field.partition("=")[::2] for field in header.split(",")]
t = dict(fields)["t"]
expected = hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
is_valid = abs(time.time() - int(t)) <= 300 and any(
    hmac.compare_digest(expected, value) for name, value in fields if name == "v1"
)`;

/** Code with which receivers verify deliveries. */
function VerifyHelp() {
  return (
    <details class="card">
      <summary>Verify deliveries in your receiver</summary>
      <div class="stack verify-help">
        <p>
          Each delivery has the header <code>Service-Signature: t=…,v1=…</code>. A signature is the hex HMAC-SHA256 of{" "}
          <code>t</code>, a period and the raw body, keyed with the whole secret. Accept a delivery if one{" "}
          <code>v1</code> matches, compared in constant time, and <code>t</code> is at most 300 seconds off.
        </p>
        <CodeBlock title="Node.js" code={node} />
        <CodeBlock title="Python" code={python} />
        <p>
          <code>uis webhooks listen</code> runs a test receiver, and <code>uis webhooks verify</code> checks one body.
          Other languages and all details: <code>docs/webhooks.md</code>; endpoints of the API:{" "}
          <a href={`${prefix}/docs`}>API documentation</a>.
        </p>
      </div>
    </details>
  );
}
