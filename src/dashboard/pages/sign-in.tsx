import { useState } from "preact/hooks";
import { call, isUnauthenticated } from "../api.js";
import { Form } from "../ui/form.js";
import { Administrator, PasswordField, wrongPassword } from "../ui/password.js";

/** The administrator's password. Whoever has none yet makes a set-up link on the machine itself. */
export function SignIn({ onDone }: { readonly onDone: () => void }) {
  const [password, setPassword] = useState("");
  const send = async (): Promise<void> => {
    try {
      await call("unified.admin.v1.SessionService/SignIn", { user: "admin", password });
    } catch (thrown) {
      throw isUnauthenticated(thrown) ? wrongPassword() : thrown;
    }
    onDone();
  };
  return (
    <main class="gate">
      <div class="card stack">
        <header>
          <div class="faint">Unified Inference</div>
          <h1>Sign in</h1>
        </header>
        <Form verb="Sign in" send={send}>
          <Administrator />
          <PasswordField
            label="Password of the administrator"
            name="password"
            value={password}
            onChange={setPassword}
          />
        </Form>
        <small>
          No password yet, or lost it? <code>uis admin link</code> on the machine of the service makes a link that sets
          one.
        </small>
      </div>
    </main>
  );
}
