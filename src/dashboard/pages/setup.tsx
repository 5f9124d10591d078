import { useEffect, useState } from "preact/hooks";
import { call } from "../api.js";
import { hrefOf } from "../location.js";
import { Form } from "../ui/form.js";
import { Administrator, useNewPassword } from "../ui/password.js";

/** Sets the administrator's password by the one-time link, and signs in. */
export function Setup({ onDone }: { readonly onDone: () => void }) {
  const { fields, agreed } = useNewPassword("New password of the administrator", "password");
  const token = useToken();
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
          <Form key={token} verb="Set password and sign in" send={send}>
            <Administrator />
            {fields}
          </Form>
        )}
      </div>
    </main>
  );
}

/** Of the link that was opened last, in this page too; empty: none. Kept out of the address, and so of histories and pictures. */
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
