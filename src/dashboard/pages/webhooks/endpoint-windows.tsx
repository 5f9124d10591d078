import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { call } from "../../api.js";
import { Confirm } from "../../ui/action.js";
import { ChangeEndpoint } from "./change-endpoint.js";
import { RotateSecret } from "./rotate-secret.js";
import { TestEvent } from "./test-event.js";

/** What can be done to an endpoint. */
export type EndpointAction = "test" | "change" | "rotate" | "disable" | "enable" | "delete";

export interface EndpointWindowProps {
  readonly endpoint: WebhookEndpointJson;
  /** Something has changed. */
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** The window in which an action is taken. */
export function EndpointWindow({ action, ...props }: EndpointWindowProps & { readonly action: EndpointAction }) {
  switch (action) {
    case "test":
      return <TestEvent {...props} />;
    case "change":
      return <ChangeEndpoint {...props} />;
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
  enabled: { verb: "Enable", follows: "It gets the events that happen from now on. What has failed can be replayed." },
  disabled: {
    verb: "Disable",
    follows: "Nothing is sent to it any more. What still waits for it fails for good and can be replayed later.",
  },
} as const;

function SwitchEndpoint({
  endpoint: { id = "", account = "", url = "" },
  status,
  onDone,
  onClose,
}: EndpointWindowProps & { readonly status: keyof typeof switching }) {
  const { verb, follows } = switching[status];
  const run = async (): Promise<void> => {
    await call("unified.webhook.v1.WebhookEndpointService/UpdateWebhookEndpoint", { id, account, status });
    onDone();
  };
  return (
    <Confirm title={`${verb} this endpoint?`} verb={verb} run={run} onClose={onClose}>
      <code>{url}</code>
      <p>{follows}</p>
    </Confirm>
  );
}

function DeleteEndpoint({ endpoint: { id = "", account = "", url = "" }, onDone, onClose }: EndpointWindowProps) {
  const run = async (): Promise<void> => {
    await call("unified.webhook.v1.WebhookEndpointService/DeleteWebhookEndpoint", { id, account });
    onDone();
  };
  return (
    <Confirm title="Delete this endpoint?" verb="Delete" run={run} onClose={onClose}>
      <code>{url}</code>
      <p>Its secret is gone, and what still waits for it is cancelled and cannot be sent any more.</p>
    </Confirm>
  );
}
