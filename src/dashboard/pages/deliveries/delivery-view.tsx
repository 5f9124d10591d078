import { useState } from "preact/hooks";
import type { AttemptJson, DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import type { GetDeliveryResponseJson } from "../../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { call } from "../../lib/api.js";
import { milliseconds, time, wholeNumber } from "../../lib/format.js";
import { PageLink, useLocation } from "../../lib/location.js";
import { useLiveData } from "../../lib/use-data.js";
import { AdminOnly } from "../../ui/admin-only.js";
import { CodeBlock } from "../../ui/code.js";
import { Badge, Loading, Problem } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";
import { Facts, Moment } from "../../ui/values.js";
import { outcomeOf } from "../webhooks/events.js";
import { canRetry, queryOf, reasonOf, requestedBy, statusOf } from "./delivery.js";
import { Retry } from "./retry.js";

/** One delivery: its status, attempts and payload. */
export function DeliveryView({ id }: { readonly id: string }) {
  const { query } = useLocation();
  const { value, error, reload } = useLiveData(
    (signal) => call("unified.webhook.v1.DeliveryService/GetDelivery", { id }, signal),
    [id],
    ({ delivery = {} }) => statusOf(delivery).isOpen,
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
            "Delivery ID": <code>{id}</code>,
            "Event ID": <code>{eventId}</code>,
            Endpoint: (
              <PageLink page="deliveries" query={{ endpoint: endpointId, account }}>
                {endpointId}
              </PageLink>
            ),
            Account: account,
            Created: time(createdAt),
            "Next attempt": <NextAttempt at={nextAttemptAt} />,
            "Replay ID": replayId === "" ? null : <code>{replayId}</code>,
          }}
        />
        {canRetry(delivery) && (
          <div class="row">
            <AdminOnly>
              <button type="button" class="primary" onClick={() => setRetrying(true)}>
                {delivery.state === "delivered" ? "Resend" : "Retry now"}
              </button>
            </AdminOnly>
          </div>
        )}
      </section>
      <Attempts attempts={delivery.attempts ?? []} made={delivery.attemptsMade ?? 0} />
      <Payload payload={payload} signature={delivery.attempts?.at(-1)?.headers?.["service-signature"] ?? ""} />
      {isRetrying && <Retry delivery={delivery} onDone={onChanged} onClose={() => setRetrying(false)} />}
    </>
  );
}

/** A delivery's status, with the reason if it has failed. */
export function DeliveryState({ delivery }: { readonly delivery: DeliveryJson }) {
  const { title, tone } = statusOf(delivery);
  const reason = reasonOf(delivery);
  return (
    <div>
      <Badge tone={tone}>{title}</Badge>
      {reason !== "" && <div class="faint">{reason}</div>}
    </div>
  );
}

/** When the next attempt is due; `now` if its time has come. */
export function NextAttempt({ at }: { readonly at: string | undefined }) {
  if (at !== undefined && new Date(at).getTime() <= Date.now()) return <time dateTime={at}>now</time>;
  return <Moment at={at} none="–" />;
}

/** The stored attempts with the receiver's responses as plain text. */
function Attempts({ attempts, made }: { readonly attempts: readonly AttemptJson[]; readonly made: number }) {
  return (
    <section class="stack" aria-labelledby="attempts">
      <h2 id="attempts">Attempts</h2>
      {attempts.length === 0 && <p class="faint">No attempts yet.</p>}
      {attempts.length > 0 && (
        <Table caption="Attempts, oldest first" columns={columns} rows={attempts} keyOf={({ number = 0 }) => number} />
      )}
      {made > attempts.length && attempts.length > 0 && (
        <small>
          Showing the latest {attempts.length} of {wholeNumber(made)} attempts.
        </small>
      )}
    </section>
  );
}

const columns: readonly Column<AttemptJson>[] = [
  { title: "Attempt", isNumber: true, cell: ({ number }) => wholeNumber(number) },
  { title: "Started", cell: ({ startedAt = "" }) => <time dateTime={startedAt}>{time(startedAt)}</time> },
  { title: "Trigger", cell: (attempt) => <Trigger attempt={attempt} /> },
  { title: "Response", cell: (attempt) => <Response attempt={attempt} /> },
  { title: "Duration", isNumber: true, cell: ({ latencyMs }) => <span class="whole">{milliseconds(latencyMs)}</span> },
  {
    title: "IP address",
    cell: ({ ip = "" }) => (ip === "" ? <span class="faint">–</span> : <code class="whole">{ip}</code>),
  },
  {
    title: "Next attempt",
    cell: ({ nextAttemptAt }) =>
      nextAttemptAt === undefined ? (
        <span class="faint">–</span>
      ) : (
        <time dateTime={nextAttemptAt}>{time(nextAttemptAt)}</time>
      ),
  },
];

function Trigger({ attempt }: { readonly attempt: AttemptJson }) {
  if (attempt.trigger !== "manual") return <span>Scheduled</span>;
  return (
    <div class="attempt-trigger">
      Manual <div class="faint">{requestedBy(attempt)}</div>
    </div>
  );
}

function Response({ attempt }: { readonly attempt: AttemptJson }) {
  const { status = 0, response = "", retryAfter = "", headers = {} } = attempt;
  const isSuccess = status >= 200 && status < 300;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return (
    <div class="attempt-response">
      <Badge tone={isSuccess ? "good" : "bad"}>{outcomeOf(attempt)}</Badge>
      {retryAfter !== "" && <div class="faint">Retry-After: {retryAfter} (ignored)</div>}
      {response !== "" && (
        <details>
          <summary>Response body</summary>
          <pre>{response}</pre>
        </details>
      )}
      {lines.length > 0 && (
        <details>
          <summary>Request headers</summary>
          <CodeBlock code={lines.join("\n")} />
        </details>
      )}
    </div>
  );
}

interface PayloadProps {
  readonly payload: string;
  /** The signature of the last attempt; empty if it is not known. */
  readonly signature: string;
}

/** The request body of every attempt, and how to check its signature. */
function Payload({ payload, signature }: PayloadProps) {
  return (
    <section class="stack" aria-labelledby="payload">
      <h2 id="payload">Payload</h2>
      {payload === "" ? (
        <p class="faint">
          Deleted: payloads are kept for 24 hours after delivery and 30 days after failure. This delivery can no longer
          be sent.
        </p>
      ) : (
        <>
          <CodeBlock title="JSON, formatted" code={formatted(payload)} />
          <details>
            <summary>Exact bytes, as signed and sent</summary>
            <CodeBlock code={payload} copyLabel="Copy exact bytes" />
          </details>
        </>
      )}
      <details>
        <summary>Check a signature</summary>
        <div class="stack delivery-signature">
          <p>
            Every attempt posts exactly these bytes with the header <code>Service-Signature: t=…,v1=…</code>:{" "}
            <code>t</code> is the time of the attempt in Unix seconds, <code>v1</code> the hex HMAC-SHA256 of{" "}
            <code>t</code>, a period and the body, keyed with the endpoint's secret. During a secret rotation there is
            one <code>v1</code> per secret.
          </p>
          <p>
            To check a delivery that a receiver rejected, pass the body and header as received. The command reports the
            reason: a timestamp more than 300 seconds off, a changed byte, or a different secret.
          </p>
          <CodeBlock
            code={`uis webhooks verify --secret whsec_… --header "${signature || "t=…,v1=…"}" < body`}
            copyLabel="Copy command"
          />
        </div>
      </details>
    </section>
  );
}

/** Indented JSON. A payload that is not JSON is shown unchanged. */
function formatted(payload: string): string {
  try {
    return JSON.stringify(JSON.parse(payload), null, 2);
  } catch {
    return payload;
  }
}
