import { useState } from "preact/hooks";
import type { SessionJson } from "../../../../gen/unified/admin/v1/session_pb.js";
import { call } from "../../api.js";
import { Confirm } from "../../ui/action.js";
import { Badge, Loading, Problem } from "../../ui/feedback.js";
import { Moment } from "../../ui/moment.js";
import { type Column, Table } from "../../ui/table.js";
import { slowlyMs, useData } from "../../use-data.js";
import { browserName } from "./browser-name.js";
import { ChangePassword } from "./change-password.js";

/** The browsers that are signed in, and the password that signs in. */
export function Sessions() {
  const [ending, setEnding] = useState<SessionJson | null>(null);
  const [isChanging, setChanging] = useState(false);
  const { value, error, reload } = useData(
    (signal) => call("unified.admin.v1.SessionService/ListSessions", {}, signal),
    [],
    slowlyMs,
  );
  return (
    <section class="stack" aria-labelledby="sessions">
      <div class="row spread">
        <h2 id="sessions">Who is signed in</h2>
        <button type="button" onClick={() => setChanging(true)}>
          Change password
        </button>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && (
        <Table
          caption="Sessions, newest first"
          columns={columnsWith(setEnding)}
          rows={value.sessions ?? []}
          keyOf={({ id = "" }) => id}
        />
      )}
      {ending !== null && <EndSession session={ending} onDone={reload} onClose={() => setEnding(null)} />}
      {isChanging && <ChangePassword onDone={reload} onClose={() => setChanging(false)} />}
    </section>
  );
}

function columnsWith(onEnd: (session: SessionJson) => void): readonly Column<SessionJson>[] {
  return [
    {
      title: "Browser",
      cell: ({ userAgent = "" }) => <span class="session-browser">{browserName(userAgent)}</span>,
    },
    { title: "Address", cell: ({ address }) => address },
    { title: "Signed in", cell: ({ createdAt }) => <Moment at={createdAt} /> },
    { title: "Last used", cell: ({ lastSeenAt }) => <Moment at={lastSeenAt} none="not yet" /> },
    { title: "Ends unless used", cell: ({ expiresAt }) => <Moment at={expiresAt} /> },
    {
      title: "",
      cell: (session) =>
        session.current === true ? (
          <div class="actions">
            <Badge tone="good">this one</Badge>
          </div>
        ) : (
          <div class="actions">
            <button
              type="button"
              class="danger"
              aria-label={`End the session from ${session.address ?? ""}`}
              onClick={() => onEnd(session)}
            >
              End
            </button>
          </div>
        ),
    },
  ];
}

interface EndSessionProps {
  readonly session: SessionJson;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function EndSession({ session: { id = "", address = "" }, onDone, onClose }: EndSessionProps) {
  const end = async (): Promise<void> => {
    await call("unified.admin.v1.SessionService/RevokeSession", { id });
    onDone();
  };
  return (
    <Confirm title="End this session?" verb="End" run={end} onClose={onClose}>
      <p>Whoever uses the browser at {address} has to sign in again.</p>
    </Confirm>
  );
}
