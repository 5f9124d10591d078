import { useState } from "preact/hooks";
import type { DoctorCheckJson } from "../../../../gen/unified/admin/v1/doctor_pb.js";
import { call } from "../../lib/api.js";
import { useAction } from "../../ui/action.js";
import { AdminOnly } from "../../ui/admin-only.js";
import { Badge, Problem, type Tone } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";

/** Statuses of checks, the most severe first. */
const statuses: Readonly<Record<string, { readonly text: string; readonly tone: Tone }>> = {
  fail: { text: "Failed", tone: "bad" },
  warn: { text: "Warning", tone: "busy" },
  ok: { text: "OK", tone: "good" },
};
const order = Object.keys(statuses);

const columns: readonly Column<DoctorCheckJson>[] = [
  { title: "Check", cell: ({ check = "" }) => check.replaceAll("_", " ") },
  { title: "Status", cell: ({ status = "" }) => <Status status={status} /> },
  { title: "Result", cell: ({ detail }) => detail },
  { title: "Recommended fix", cell: ({ fix = "" }) => (fix === "" ? "–" : fix) },
];

/** Runs `uis doctor` inside the service on request. */
export function Diagnostics() {
  const [checks, setChecks] = useState<readonly DoctorCheckJson[] | null>(null);
  const { isRunning, error, start } = useAction(async () => {
    const { checks: found = [] } = await call("unified.admin.v1.SystemService/RunDoctor", {});
    setChecks([...found].sort((a, b) => rank(a) - rank(b)));
  });
  return (
    <section class="card stack diagnostics" aria-label="Diagnostics">
      <div class="row spread">
        <h2>Diagnostics</h2>
        <AdminOnly>
          <button type="button" disabled={isRunning} onClick={start}>
            Run diagnostics
          </button>
        </AdminOnly>
      </div>
      <p class="faint" role="status">
        {isRunning ? "Running checks. This takes a few seconds…" : summary(checks)}
      </p>
      <Problem error={error} />
      {checks !== null && (
        <Table
          caption="Checks, most severe first"
          columns={columns}
          rows={checks}
          keyOf={({ check, detail }) => `${check} ${detail}`}
        />
      )}
    </section>
  );
}

function summary(checks: readonly DoctorCheckJson[] | null): string {
  if (checks === null) return "Checks the host, models, configuration and store, like uis doctor.";
  const open = checks.filter(({ status }) => status !== "ok").length;
  return open === 0 ? `All ${checks.length} checks passed.` : `${open} of ${checks.length} checks need attention.`;
}

function Status({ status }: { readonly status: string }) {
  const { text, tone } = statuses[status] ?? { text: status, tone: "plain" };
  return <Badge tone={tone}>{text}</Badge>;
}

function rank({ status = "" }: DoctorCheckJson): number {
  return order.indexOf(status);
}
