import type { ComponentChildren } from "preact";
import { prefix } from "../../location.js";
import { Copy, SecretOnce } from "../../ui/secret.js";

export interface NewSecretProps {
  readonly secret: string;
  readonly onClose: () => void;
  /** What else there is to know. */
  readonly children?: ComponentChildren;
}

/** The secret of a new key, with a command that tries it. */
export function NewSecret({ secret, onClose, children }: NewSecretProps) {
  const trial = `curl ${window.location.origin}${prefix}/v1/models -H "Authorization: Bearer ${secret}"`;
  return (
    <SecretOnce label="The key" secret={secret} onClose={onClose}>
      {children}
      <div class="stack">
        <div class="row spread">
          <span>Try it:</span>
          <Copy text={trial} label="Copy command" />
        </div>
        <pre>{trial}</pre>
      </div>
    </SecretOnce>
  );
}
