import { SecretOnce } from "../../ui/secret.js";

/** The secret of an endpoint, new by its registration or a rotation. */
export function SigningSecret({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }) {
  return (
    <div class="stack">
      <SecretOnce label="The receiver verifies deliveries with it" secret={secret} />
      <footer>
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </footer>
    </div>
  );
}
