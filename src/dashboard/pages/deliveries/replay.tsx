import { useState } from "preact/hooks";
import type { ReplayDeliveriesResponseJson } from "../../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { call } from "../../api.js";
import { toInstant, toLocal } from "../../local-time.js";
import { Check } from "../../ui/check.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, textOf } from "../../ui/form.js";
import type { DeliveryQuery } from "./delivery-query.js";
import { EndpointField } from "./endpoint-field.js";
import { ReplayProgress } from "./replay-progress.js";
import { useEndpoints } from "./use-endpoints.js";

/** By one call. */
const queuedMax = 10_000;

export interface ReplayProps {
  /** Fills in the account, the endpoint and the span. */
  readonly query: DeliveryQuery;
  /** Deliveries were queued. */
  readonly onQueued: () => void;
  readonly onClose: () => void;
}

/**
 * Sends what an endpoint missed again. The same call again queues nothing twice and tells how far it is.
 */
export function Replay({ query, onQueued, onClose }: ReplayProps) {
  const [account, setAccount] = useState(query.account);
  const endpoints = useEndpoints(account.trim());
  const [endpointId, setEndpointId] = useState(query.endpoint);
  const [from, setFrom] = useState(toLocal(query.from));
  const [before, setBefore] = useState(toLocal(query.before));
  const [includeDelivered, setIncludeDelivered] = useState(false);
  const [restartSchedule, setRestart] = useState(false);
  const [progress, setProgress] = useState<ReplayDeliveriesResponseJson | null>(null);
  const replay = async (): Promise<void> => {
    const createdFrom = toInstant(from);
    const createdBefore = progress?.createdBefore ?? toInstant(before);
    const answer = await call("unified.webhook.v1.DeliveryService/ReplayDeliveries", {
      endpointId: endpointId.trim(),
      account: account.trim(),
      includeDelivered,
      restartSchedule,
      ...(createdFrom === null ? {} : { createdFrom }),
      ...(createdBefore === null ? {} : { createdBefore }),
    });
    setProgress(answer);
    onQueued();
  };
  return (
    <Dialog title="Replay a range" onClose={onClose}>
      <Form
        verb={progress === null ? "Replay" : verbAfter(progress)}
        send={replay}
        {...(progress === null ? { onCancel: onClose } : {})}
      >
        {progress === null ? (
          <>
            <AccountField account={account} onChange={setAccount} />
            <EndpointField endpoints={endpoints} value={endpointId} onChange={setEndpointId} isRequired />
            <LocalTime label="Created from" value={from} onChange={setFrom} isRequired />
            <LocalTime label="Created before" hint="Empty: now." value={before} onChange={setBefore} />
            <Check isOn={includeDelivered} onChange={setIncludeDelivered}>
              Also what was delivered. Otherwise only what failed for good.
            </Check>
            <Check isOn={restartSchedule} onChange={setRestart}>
              Start the schedule again for each: a failure is followed by all retries.
            </Check>
          </>
        ) : (
          <ReplayProgress progress={progress} onShow={onClose} />
        )}
      </Form>
    </Dialog>
  );
}

/** A call that has queued as many as one may leaves others behind. */
function verbAfter({ queued = 0 }: ReplayDeliveriesResponseJson): string {
  return queued >= queuedMax ? "Queue the next" : "See how far it is";
}

interface AccountFieldProps {
  readonly account: string;
  readonly onChange: (account: string) => void;
}

/** The list shows all accounts; an endpoint is found only in its own. */
function AccountField({ account, onChange }: AccountFieldProps) {
  return (
    <Field label="Account" name="account" hint="Whose endpoint it is. Empty: default.">
      {(ids) => (
        <input
          {...ids}
          type="text"
          autocomplete="off"
          spellcheck={false}
          value={account}
          onInput={(event) => onChange(textOf(event))}
        />
      )}
    </Field>
  );
}

interface LocalTimeProps {
  readonly label: string;
  readonly hint?: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly isRequired?: boolean;
}

function LocalTime({ label, hint, value, onChange, isRequired = false }: LocalTimeProps) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      {(ids) => (
        <input
          {...ids}
          type="datetime-local"
          required={isRequired}
          value={value}
          onInput={(event) => onChange(textOf(event))}
        />
      )}
    </Field>
  );
}
