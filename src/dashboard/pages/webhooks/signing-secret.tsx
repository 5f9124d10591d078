import { SecretOnce } from "../../ui/secret.js";

/** The secret of an endpoint, new by its registration or a rotation. */
export function SigningSecret({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }) {
  return <SecretOnce label="The receiver verifies deliveries with it" secret={secret} onClose={onClose} />;
}
