import { useState } from "preact/hooks";
import type { DoctorCheckJson } from "../../../../gen/unified/admin/v1/doctor_pb.js";
import { call } from "../../api.js";
import { useAction } from "../../ui/action.js";
import { Badge, Problem, type Tone } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";

const words: Readonly<Record<string, { readonly text: string; readonly tone: Tone }>> = {
  fail: { text: "Fails", tone: "bad" },
  warn: { text: "Look", tone: "busy" },
  ok: { text: "Well", tone: "good" },
};
const order = Object.keys(words);

const columns: readonly Column<DoctorCheckJson>[] = [
  { title: "Check", cell: ({ check = "" }) => check.replaceAll("_", " ") },
  { title: "State", cell: ({ status = "" }) => <State status={status} /> },
  { title: "Found", cell: ({ detail }) => detail },
  { title: "What to do", cell: ({ fix = "" }) => (fix === "" ? "Nothing" : fix) },
];

/** What `uis doctor` finds, run by the service when it is asked to. */
export function Installation() {
  const [checks, setChecks] = useState<readonly DoctorCheckJson[] | null>(null);
  const { isRunning, error, start } = useAction(async () => {
    const { checks: found = [] } = await call("unified.admin.v1.SystemService/RunDoctor", {});
    setChecks([...found].sort((a, b) => rank(a) - rank(b)));
  });
  return (
    <section class="card stack installation" aria-label="Installation">
      <div class="row spread">
        <h2>Installation</h2>
        <button type="button" disabled={isRunning} onClick={start}>
          Check this installation
        </button>
      </div>
      <p class="faint" role="status">
        {isRunning ? "Checking, which takes some seconds…" : summary(checks)}
      </p>
      <Problem error={error} />
      {checks !== null && (
        <Table
          caption="What was found, the most pressing first"
          columns={columns}
          rows={checks}
          keyOf={({ check, detail }) => `${check} ${detail}`}
        />
      )}
    </section>
  );
}

function summary(checks: readonly DoctorCheckJson[] | null): string {
  if (checks === null) return "Machine, models, settings and store are looked at, as uis doctor does.";
  const open = checks.filter(({ status }) => status !== "ok").length;
  return open === 0 ? `All ${checks.length} are well.` : `${open} of ${checks.length} need attention.`;
}

function State({ status }: { readonly status: string }) {
  const { text, tone } = words[status] ?? { text: status, tone: "plain" };
  return <Badge tone={tone}>{text}</Badge>;
}

function rank({ status = "" }: DoctorCheckJson): number {
  return order.indexOf(status);
}
