import { useState } from "preact/hooks";
import { call, isUnauthenticated } from "../../api.js";
import { Dialog } from "../../ui/dialog.js";
import { Form } from "../../ui/form.js";
import { Administrator, PasswordField, useNewPassword, wrongPassword } from "../../ui/password.js";

export interface ChangePasswordProps {
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Sets another password, which ends all sessions but this one. */
export function ChangePassword({ onDone, onClose }: ChangePasswordProps) {
  const [current, setCurrent] = useState("");
  const { fields, agreed } = useNewPassword("New password", "new_password");
  const change = async (): Promise<void> => {
    const request = { currentPassword: current, newPassword: agreed() };
    try {
      await call("unified.admin.v1.SessionService/ChangePassword", request);
    } catch (thrown) {
      if (!isUnauthenticated(thrown)) throw thrown;
      // Refused in the same words when the session has ended: then this refuses too, and leads to the sign-in.
      await call("unified.admin.v1.SessionService/ListSessions", {});
      throw wrongPassword();
    }
    onDone();
    onClose();
  };
  return (
    <Dialog title="Change password" onClose={onClose}>
      <Form verb="Change password" send={change} onCancel={onClose}>
        <p>All other sessions end.</p>
        <Administrator />
        <PasswordField label="Password as it is" name="current_password" value={current} onChange={setCurrent} />
        {fields}
      </Form>
    </Dialog>
  );
}
