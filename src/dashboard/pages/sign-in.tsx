import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, isUnauthenticated } from "../lib/api.js";
import { hrefOf } from "../lib/location.js";
import { Brand } from "../shell/navigation.js";
import { Form } from "../ui/form.js";
import { Administrator, PasswordField, useNewPassword, wrongPassword } from "../ui/password.js";

/** Signs the administrator in with the password. */
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
    <Gate title="Sign in">
      <Form verb="Sign in" send={send}>
        <Administrator />
        <PasswordField label="Administrator password" name="password" value={password} onChange={setPassword} />
      </Form>
      <small>
        No password yet, or forgot it? Run <code>uis admin link</code> on the server to create a link that sets one.
      </small>
    </Gate>
  );
}

/** Sets the administrator's password with a one-time link and signs in. */
export function Setup({ onDone }: { readonly onDone: () => void }) {
  const { fields, confirmed } = useNewPassword("Administrator password", "password");
  const token = useToken();
  const send = async (): Promise<void> => {
    await call("unified.admin.v1.SessionService/CompleteSetup", { token, password: confirmed() });
    onDone();
  };
  return (
    <Gate title="Set a password">
      {token === "" ? (
        <p>
          This link has no token. Open the full link, or create a new one with <code>uis admin link</code>.
        </p>
      ) : (
        <Form key={token} verb="Set password and sign in" send={send}>
          <Administrator />
          {fields}
        </Form>
      )}
    </Gate>
  );
}

function Gate({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <main class="gate">
      <div class="card stack">
        <header>
          <Brand />
          <h1>{title}</h1>
        </header>
        {children}
      </div>
    </main>
  );
}

/** The token of the link opened last in this tab; empty if none. It is removed from the URL, and so from the history. */
function useToken(): string {
  const [token, setToken] = useState(tokenInAddress);
  useEffect(() => {
    const take = (): void => {
      const found = tokenInAddress();
      if (found !== "") setToken(found);
      window.history.replaceState(null, "", hrefOf("setup"));
    };
    take();
    window.addEventListener("hashchange", take);
    return () => window.removeEventListener("hashchange", take);
  }, []);
  return token;
}

function tokenInAddress(): string {
  return new URLSearchParams(window.location.hash.slice(1)).get("token") ?? "";
}
