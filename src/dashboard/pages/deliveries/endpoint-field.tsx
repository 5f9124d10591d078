import { useId } from "preact/hooks";
import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { Field, textOf } from "../../ui/form.js";

export interface EndpointFieldProps {
  /** Proposed; another id can be typed, such as that of one that was deleted. */
  readonly endpoints: readonly WebhookEndpointJson[];
  readonly value: string;
  readonly onChange: (id: string) => void;
  readonly isRequired?: boolean;
}

export function EndpointField({ endpoints, value, onChange, isRequired = false }: EndpointFieldProps) {
  const listId = useId();
  return (
    <Field label="Endpoint" name="endpoint_id">
      {(ids) => (
        <>
          <input
            {...ids}
            type="text"
            list={listId}
            required={isRequired}
            placeholder="we_…"
            autocomplete="off"
            spellcheck={false}
            value={value}
            onInput={(event) => onChange(textOf(event))}
          />
          <datalist id={listId}>
            {endpoints.map(({ id, url }) => (
              <option key={id} value={id}>
                {url}
              </option>
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}
