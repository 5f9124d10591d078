import { useState } from "preact/hooks";
import type { RotateWebhookSecretResponseJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { call } from "../../lib/api.js";
import { time } from "../../lib/format.js";
import { Confirm } from "../../ui/action.js";
import { Dialog } from "../../ui/dialog.js";
import { Check, Form, TextField } from "../../ui/form.js";
import { defaultOverlap, OverlapField, SecretOnce } from "../../ui/secret.js";
import { type EndpointDialogProps, type EventType, eventTypeNames, eventTypes } from "./events.js";
import { TestEvent } from "./test-event.js";

export type EndpointAction = "test" | "edit" | "rotate" | "disable" | "enable" | "delete";

/** The dialog of an action. */
export function EndpointDialog({ action, ...props }: EndpointDialogProps & { readonly action: EndpointAction }) {
  switch (action) {
    case "test":
      return <TestEvent {...props} />;
    case "edit":
      return <EditEndpoint {...props} />;
    case "rotate":
      return <RotateSecret {...props} />;
    case "disable":
    case "enable":
      return <SwitchEndpoint {...props} status={`${action}d`} />;
    case "delete":
      return <DeleteEndpoint {...props} />;
  }
}

const switching = {
  enabled: { verb: "Enable", effect: "It receives new events from now on. Failed deliveries can be replayed." },
  disabled: {
    verb: "Disable",
    effect: "It receives no more events. Pending deliveries fail and can be replayed later.",
  },
} as const;

function SwitchEndpoint({
  endpoint: { id = "", account = "", url = "" },
  status,
  onDone,
  onClose,
}: EndpointDialogProps & { readonly status: keyof typeof switching }) {
  const { verb, effect } = switching[status];
  const run = async (): Promise<void> => {
    await call("unified.webhook.v1.WebhookEndpointService/UpdateWebhookEndpoint", { id, account, status });
    onDone();
  };
  return (
    <Confirm title={`${verb} this endpoint?`} verb={verb} run={run} onClose={onClose}>
      <code>{url}</code>
      <p>{effect}</p>
    </Confirm>
  );
}

function DeleteEndpoint({ endpoint: { id = "", account = "", url = "" }, onDone, onClose }: EndpointDialogProps) {
  const run = async (): Promise<void> => {
    await call("unified.webhook.v1.WebhookEndpointService/DeleteWebhookEndpoint", { id, account });
    onDone();
  };
  return (
    <Confirm title="Delete this endpoint?" verb="Delete" run={run} onClose={onClose}>
      <code>{url}</code>
      <p>Its signing secret is deleted and its pending deliveries are cancelled. This cannot be undone.</p>
    </Confirm>
  );
}

export interface AddEndpointProps {
  readonly account: string;
  readonly onCreated: () => void;
  readonly onClose: () => void;
}

/** Adds an endpoint and shows its signing secret once. */
export function AddEndpoint({ account, onCreated, onClose }: AddEndpointProps) {
  const [draft, setDraft] = useState<EndpointDraft>({
    url: "",
    events: ["request.completed", "request.failed"],
    description: "",
  });
  const [secret, setSecret] = useState<string | null>(null);
  const add = async (): Promise<void> => {
    const { url, events, description } = draft;
    const webhookEndpoint = { account, url: url.trim(), events: [...events], description };
    const created = await call("unified.webhook.v1.WebhookEndpointService/CreateWebhookEndpoint", { webhookEndpoint });
    setSecret(created.secret ?? "");
    onCreated();
  };
  return (
    <Dialog title={secret === null ? "Add an endpoint" : "Signing secret"} onClose={onClose}>
      {secret === null ? (
        <Form verb="Add endpoint" send={add} onCancel={onClose} makesSecret>
          <p>
            It receives new events of the account <strong>{account || "default"}</strong>.
          </p>
          <EndpointFields draft={draft} onChange={setDraft} />
        </Form>
      ) : (
        <SigningSecret secret={secret} onClose={onClose} />
      )}
    </Dialog>
  );
}

/** Edits URL, events, description and concurrency. */
function EditEndpoint({ endpoint, onDone, onClose }: EndpointDialogProps) {
  const { id = "", account = "", url = "", events = [], description = "" } = endpoint;
  const [draft, setDraft] = useState<EndpointDraft>({ url, events, description });
  const [concurrency, setConcurrency] = useState(String(endpoint.maxInFlight ?? ""));
  const save = async (): Promise<void> => {
    await call("unified.webhook.v1.WebhookEndpointService/UpdateWebhookEndpoint", {
      id,
      account,
      ...(draft.url === url ? {} : { url: draft.url.trim() }),
      events: { values: [...draft.events] },
      description: draft.description,
      maxInFlight: Number(concurrency),
    });
    onDone();
    onClose();
  };
  return (
    <Dialog title="Edit endpoint" onClose={onClose}>
      <Form verb="Save" send={save} onCancel={onClose}>
        <EndpointFields draft={draft} onChange={setDraft} />
        <TextField
          label="Max concurrency"
          name="max_in_flight"
          hint="Parallel deliveries, 1 to 64."
          type="number"
          required
          min={1}
          max={64}
          value={concurrency}
          onChange={setConcurrency}
        />
      </Form>
    </Dialog>
  );
}

/** An endpoint as typed into the form. */
interface EndpointDraft {
  readonly url: string;
  readonly events: readonly string[];
  readonly description: string;
}

interface EndpointFieldsProps {
  readonly draft: EndpointDraft;
  readonly onChange: (draft: EndpointDraft) => void;
}

/** The fields shared by adding and editing an endpoint. */
function EndpointFields({ draft, onChange }: EndpointFieldsProps) {
  const toggle = (type: EventType, isOn: boolean): void => {
    const events = eventTypeNames.filter((each) => (each === type ? isOn : draft.events.includes(each)));
    onChange({ ...draft, events });
  };
  return (
    <>
      <TextField
        label="URL"
        name="url"
        hint="Events are sent here as POST requests. Must use https and a public address."
        type="url"
        required
        maxLength={2_048}
        placeholder="https://hooks.example.com/inference"
        value={draft.url}
        onChange={(url) => onChange({ ...draft, url })}
      />
      <fieldset>
        <legend>Events</legend>
        {eventTypeNames.map((type) => (
          <Check key={type} isOn={draft.events.includes(type)} onChange={(isOn) => toggle(type, isOn)}>
            <code>{type}</code>: {eventTypes[type]}
          </Check>
        ))}
      </fieldset>
      <TextField
        label="Description"
        name="description"
        hint="Optional note."
        maxLength={256}
        value={draft.description}
        onChange={(description) => onChange({ ...draft, description })}
      />
    </>
  );
}

/** Creates a new signing secret. Until the old one expires, deliveries carry both signatures. */
function RotateSecret({ endpoint: { id = "", account = "" }, onDone, onClose }: EndpointDialogProps) {
  const [overlap, setOverlap] = useState(defaultOverlap);
  const [created, setCreated] = useState<RotateWebhookSecretResponseJson | null>(null);
  const rotate = async (): Promise<void> => {
    const request = { id, account, overlap };
    setCreated(await call("unified.webhook.v1.WebhookEndpointService/RotateWebhookSecret", request));
    onDone();
  };
  if (created !== null) {
    return (
      <Dialog title="New signing secret" onClose={onClose}>
        <div class="stack">
          <p>The old secret expires on {time(created.oldExpiresAt)}.</p>
          <SigningSecret secret={created.secret ?? ""} onClose={onClose} />
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Rotate signing secret" onClose={onClose}>
      <Form verb="Rotate" send={rotate} onCancel={onClose} makesSecret>
        <OverlapField
          label="Old secret expires"
          hint="Until then, deliveries carry both signatures, so receivers can use either secret."
          value={overlap}
          onChange={setOverlap}
        />
      </Form>
    </Dialog>
  );
}

function SigningSecret({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }) {
  return <SecretOnce label="Signing secret" secret={secret} onClose={onClose} />;
}
