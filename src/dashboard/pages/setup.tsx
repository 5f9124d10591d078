import { useEffect } from "preact/hooks";
import { call } from "../api.js";
import { hrefOf } from "../location.js";
import { Form } from "../ui/form.js";
import { Administrator, useNewPassword } from "../ui/password.js";

/** Taken once and then removed from the address, so that it is in no history and no screenshot. */
const token = new URLSearchParams(window.location.hash.slice(1)).get("token") ?? "";

/** Sets the administrator's password by the one-time link, and signs in. */
export function Setup({ onDone }: { readonly onDone: () => void }) {
  const { fields, agreed } = useNewPassword("New password of the administrator", "password");
  useEffect(() => window.history.replaceState(null, "", hrefOf("setup")), []);
  const send = async (): Promise<void> => {
    await call("unified.admin.v1.SessionService/CompleteSetup", { token, password: agreed() });
    onDone();
  };
  return (
    <main class="gate">
      <div class="card stack">
        <header>
          <div class="faint">Unified Inference</div>
          <h1>Set the password</h1>
        </header>
        {token === "" ? (
          <p>
            This address lacks its token. Open the whole link, or make a new one with <code>uis admin link</code>.
          </p>
        ) : (
          <Form verb="Set password and sign in" send={send}>
            <Administrator />
            {fields}
          </Form>
        )}
      </div>
    </main>
  );
}
