import { useId } from "preact/hooks";
import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { wholeNumber } from "../../format.js";
import { Facts } from "../../ui/facts.js";
import { Badge } from "../../ui/feedback.js";
import { Moment } from "../../ui/moment.js";
import { PageLink } from "../../ui/page-link.js";
import { endpointHealth } from "./endpoint-health.js";
import type { EndpointAction } from "./endpoint-windows.js";

export interface EndpointCardProps {
  readonly endpoint: WebhookEndpointJson;
  readonly onAction: (action: EndpointAction) => void;
}

/** One endpoint: where it is, how it fares, and what can be done to it. */
export function EndpointCard({ endpoint, onAction }: EndpointCardProps) {
  const { id = "", account = "", url = "", description = "" } = endpoint;
  const { word, tone, reason } = endpointHealth(endpoint);
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
          <Badge tone={tone}>{word}</Badge>
          {reason !== "" && <span class="faint">{reason}</span>}
        </div>
      </div>
      {url.startsWith("http:") && (
        <p class="endpoint-warning">Without TLS: everybody on the way can read the events.</p>
      )}
      <EndpointFacts endpoint={endpoint} />
      <div class="actions endpoint-actions">
        <PageLink page="deliveries" query={{ endpoint: id, account }} label={`Deliveries to ${url}`}>
          Deliveries
        </PageLink>
        <ActionButtons endpoint={endpoint} onAction={onAction} />
      </div>
    </li>
  );
}

function ActionButtons({ endpoint: { url = "", status }, onAction }: EndpointCardProps) {
  const button = (action: EndpointAction, verb: string) => (
    <button
      type="button"
      class={action === "delete" ? "danger" : undefined}
      aria-label={`${verb}: ${url}`}
      onClick={() => onAction(action)}
    >
      {verb}
    </button>
  );
  return (
    <>
      {button("test", "Send test event")}
      {button("change", "Change")}
      {button("rotate", "Rotate secret")}
      {status === "disabled" ? button("enable", "Enable") : button("disable", "Disable")}
      {button("delete", "Delete")}
    </>
  );
}

function EndpointFacts({ endpoint }: { readonly endpoint: WebhookEndpointJson }) {
  const { failingSince, failuresInRow, previousSecretExpiresAt, secretHint = "" } = endpoint;
  return (
    <Facts
      isWide
      of={{
        Id: <code>{endpoint.id}</code>,
        Events: (endpoint.events ?? []).join(", "),
        "Last success": <Moment at={endpoint.lastSuccessAt} none="none yet" />,
        "Last failure": <Moment at={endpoint.lastFailureAt} none="none" />,
        "Failing since":
          failingSince === undefined ? null : (
            <>
              <Moment at={failingSince} /> ({wholeNumber(failuresInRow)} in a row)
            </>
          ),
        Secret: (
          <>
            <code>whsec_…{secretHint}</code>
            {previousSecretExpiresAt !== undefined && (
              <>
                , the one before signs too and stops <Moment at={previousSecretExpiresAt} />
              </>
            )}
          </>
        ),
        "At once": `${endpoint.maxInFlight ?? 0} deliveries`,
      }}
    />
  );
}
