import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { call } from "../../lib/api.js";
import { PageLink } from "../../lib/location.js";
import { useData } from "../../lib/use-data.js";
import { Icon } from "../../ui/icon.js";

interface Step {
  readonly isDone: boolean;
  readonly text: string;
  readonly page: string;
  readonly link: string;
}

export interface ChecklistProps {
  readonly system: SystemJson;
  readonly onDismiss: () => void;
}

/** First steps with a new service; absent once all are done. */
export function Checklist({ system, onDismiss }: ChecklistProps) {
  const { value } = useData(read, []);
  if (value === null) return null;
  const steps: readonly Step[] = [
    {
      isDone: (system.models ?? []).some(({ state }) => state === "ready"),
      text: "Have a model ready",
      page: "models",
      link: "Models",
    },
    {
      isDone: value.isUsed || Number(system.counters?.completionTokens ?? 0) > 0,
      text: "Send a first request",
      page: "playground",
      link: "Playground",
    },
    { isDone: value.keys > 1, text: "Create a key for each application", page: "keys", link: "API keys" },
    { isDone: value.thresholds > 0, text: "Set a budget or a usage threshold", page: "usage", link: "Usage" },
    { isDone: value.endpoints > 0, text: "Receive events by webhook", page: "webhooks", link: "Webhooks" },
  ];
  const done = steps.filter(({ isDone }) => isDone).length;
  if (done === steps.length) return null;
  return (
    <section class="card stack checklist" aria-label="First steps">
      <div class="row spread">
        <h2>
          First steps{" "}
          <small>
            {done} of {steps.length} done
          </small>
        </h2>
        <button type="button" class="quiet icon-button" aria-label="Dismiss first steps" onClick={onDismiss}>
          <Icon name="close" />
        </button>
      </div>
      <ul>
        {steps.map(({ isDone, text, page, link }) => (
          <li key={text} class={isDone ? "is-done" : undefined}>
            <Icon name={isDone ? "check-circle" : "circle"} />
            <span>
              {text}
              {isDone && <span class="unseen"> (done)</span>}
            </span>
            {!isDone && <PageLink page={page}>{link}</PageLink>}
          </li>
        ))}
      </ul>
    </section>
  );
}

interface Started {
  readonly keys: number;
  /** Whether a key was used. */
  readonly isUsed: boolean;
  readonly thresholds: number;
  readonly endpoints: number;
}

async function read(signal: AbortSignal): Promise<Started> {
  const [{ apiKeys = [] }, { thresholds = [] }, { webhookEndpoints = [] }] = await Promise.all([
    call("unified.admin.v1.ApiKeyService/ListApiKeys", { pageSize: 10 }, signal),
    call("unified.admin.v1.ThresholdService/ListThresholds", {}, signal),
    call("unified.webhook.v1.WebhookEndpointService/ListWebhookEndpoints", {}, signal),
  ]);
  return {
    keys: apiKeys.length,
    isUsed: apiKeys.some(({ lastUsedAt }) => lastUsedAt !== undefined),
    thresholds: thresholds.length,
    endpoints: webhookEndpoints.length,
  };
}
