import { useState } from "preact/hooks";
import type { SessionJson } from "../../../../gen/unified/admin/v1/session_pb.js";
import { call, isUnauthenticated } from "../../lib/api.js";
import { browserName } from "../../lib/format.js";
import { slowRefreshMs, useData } from "../../lib/use-data.js";
import { Confirm } from "../../ui/action.js";
import { AdminOnly } from "../../ui/admin-only.js";
import { Dialog } from "../../ui/dialog.js";
import { Badge, Loading, Problem } from "../../ui/feedback.js";
import { Form } from "../../ui/form.js";
import { Administrator, PasswordField, useNewPassword, wrongPassword } from "../../ui/password.js";
import { type Column, Table } from "../../ui/table.js";
import { Moment } from "../../ui/values.js";

/** The administrator's sessions and password. */
export function Sessions() {
  const [revoking, setRevoking] = useState<SessionJson | null>(null);
  const [isChanging, setChanging] = useState(false);
  const { value, error, reload } = useData(
    (signal) => call("unified.admin.v1.SessionService/ListSessions", {}, signal),
    [],
    slowRefreshMs,
  );
  return (
    <section class="stack" aria-labelledby="sessions">
      <div class="row spread">
        <h2 id="sessions">Active sessions</h2>
        <AdminOnly>
          <button type="button" onClick={() => setChanging(true)}>
            Change password
          </button>
        </AdminOnly>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && (
        <Table
          caption="Active sessions, newest first"
          columns={columnsWith(setRevoking)}
          rows={value.sessions ?? []}
          keyOf={({ id = "" }) => id}
        />
      )}
      {revoking !== null && <RevokeSession session={revoking} onDone={reload} onClose={() => setRevoking(null)} />}
      {isChanging && <ChangePassword onDone={reload} onClose={() => setChanging(false)} />}
    </section>
  );
}

function columnsWith(onRevoke: (session: SessionJson) => void): readonly Column<SessionJson>[] {
  return [
    {
      title: "Browser",
      cell: ({ userAgent = "" }) => <span class="session-browser">{browserName(userAgent)}</span>,
    },
    { title: "IP address", cell: ({ address }) => address },
    { title: "Signed in", cell: ({ createdAt }) => <Moment at={createdAt} /> },
    { title: "Last active", cell: ({ lastSeenAt }) => <Moment at={lastSeenAt} /> },
    { title: "Expires", cell: ({ expiresAt }) => <Moment at={expiresAt} /> },
    {
      title: "",
      cell: (session) =>
        session.current === true ? (
          <div class="actions">
            <Badge tone="good">This session</Badge>
          </div>
        ) : (
          <AdminOnly>
            <div class="actions">
              <button
                type="button"
                class="danger"
                aria-label={`Revoke session from ${session.address ?? ""}`}
                onClick={() => onRevoke(session)}
              >
                Revoke
              </button>
            </div>
          </AdminOnly>
        ),
    },
  ];
}

interface RevokeSessionProps {
  readonly session: SessionJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function RevokeSession({ session: { id = "", address = "" }, onDone, onClose }: RevokeSessionProps) {
  const revoke = async (): Promise<void> => {
    await call("unified.admin.v1.SessionService/RevokeSession", { id });
    onDone();
  };
  return (
    <Confirm title="Revoke this session?" verb="Revoke" run={revoke} onClose={onClose}>
      <p>The browser at {address} is signed out.</p>
    </Confirm>
  );
}

interface ChangePasswordProps {
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Changes the password, which ends all other sessions. */
function ChangePassword({ onDone, onClose }: ChangePasswordProps) {
  const [current, setCurrent] = useState("");
  const { fields, confirmed } = useNewPassword("New password", "new_password");
  const change = async (): Promise<void> => {
    const request = { currentPassword: current, newPassword: confirmed() };
    try {
      await call("unified.admin.v1.SessionService/ChangePassword", request);
    } catch (thrown) {
      if (!isUnauthenticated(thrown)) throw thrown;
      // An expired session has the same error code as a wrong password. This call fails too if the session is gone.
      await call("unified.admin.v1.SessionService/ListSessions", {});
      throw wrongPassword();
    }
    onDone();
    onClose();
  };
  return (
    <Dialog title="Change password" onClose={onClose}>
      <Form verb="Change password" send={change} onCancel={onClose}>
        <p>All other sessions are signed out.</p>
        <Administrator />
        <PasswordField label="Current password" name="current_password" value={current} onChange={setCurrent} />
        {fields}
      </Form>
    </Dialog>
  );
}
