import { useEffect, useState } from "preact/hooks";
import { call } from "../api.js";
import { hrefOf } from "../location.js";
import { Field, Form, textOf } from "../ui/form.js";

/** Taken once and then removed from the address, so that it is in no history and no screenshot. */
const token = new URLSearchParams(window.location.hash.slice(1)).get("token") ?? "";

/** Sets the administrator's password by the one-time link, and signs in. */
export function Setup({ onDone }: { readonly onDone: () => void }) {
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  useEffect(() => window.history.replaceState(null, "", hrefOf("setup")), []);
  const send = async (): Promise<void> => {
    if (password !== again) throw new Error("The two passwords are not the same.");
    await call("unified.admin.v1.SessionService/CompleteSetup", { token, password });
    onDone();
  };
  const passwordInput = (value: string, set: (text: string) => void, ids: object) => (
    <input
      {...ids}
      type="password"
      autocomplete="new-password"
      required
      minLength={12}
      maxLength={1_024}
      value={value}
      onInput={(event) => set(textOf(event))}
    />
  );
  return (
    <main class="gate">
      <div class="card stack">
        <h1>Set the password</h1>
        {token === "" ? (
          <p>
            This address lacks its token. Open the whole link, or make a new one with <code>uis admin link</code>.
          </p>
        ) : (
          <Form verb="Set password and sign in" send={send}>
            <input type="text" name="username" value="admin" autocomplete="username" hidden readOnly />
            <Field label="New password of the administrator" hint="12 characters or more." name="password">
              {(ids) => passwordInput(password, setPassword, ids)}
            </Field>
            <Field label="The same again">{(ids) => passwordInput(again, setAgain, ids)}</Field>
          </Form>
        )}
      </div>
    </main>
  );
}
