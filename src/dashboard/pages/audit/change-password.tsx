import { useState } from "preact/hooks";
import { call } from "../../api.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, textOf } from "../../ui/form.js";

export interface ChangePasswordProps {
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Sets another password, which ends all sessions but this one. */
export function ChangePassword({ onDone, onClose }: ChangePasswordProps) {
  const [current, setCurrent] = useState("");
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const change = async (): Promise<void> => {
    if (password !== again) throw new Error("The two new passwords are not the same.");
    const request = { currentPassword: current, newPassword: password };
    await call("unified.admin.v1.SessionService/ChangePassword", request);
    onDone();
    onClose();
  };
  return (
    <Dialog title="Change password" onClose={onClose}>
      <Form verb="Change password" send={change} onCancel={onClose}>
        <p>All other sessions end.</p>
        <input type="text" name="username" value="admin" autocomplete="username" hidden readOnly />
        <Field label="Password as it is" name="current_password">
          {(ids) => (
            <input
              {...ids}
              type="password"
              autocomplete="current-password"
              required
              value={current}
              onInput={(event) => setCurrent(textOf(event))}
            />
          )}
        </Field>
        <Field label="New password" name="new_password" hint="12 characters or more.">
          {(ids) => <NewPassword ids={ids} value={password} onChange={setPassword} />}
        </Field>
        <Field label="The new one again">{(ids) => <NewPassword ids={ids} value={again} onChange={setAgain} />}</Field>
      </Form>
    </Dialog>
  );
}

interface NewPasswordProps {
  readonly ids: object;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function NewPassword({ ids, value, onChange }: NewPasswordProps) {
  return (
    <input
      {...ids}
      type="password"
      autocomplete="new-password"
      required
      minLength={12}
      maxLength={1_024}
      value={value}
      onInput={(event) => onChange(textOf(event))}
    />
  );
}
