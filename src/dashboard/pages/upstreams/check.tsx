import { useState } from "preact/hooks";
import type { UpstreamJson } from "../../../../gen/unified/admin/v1/upstream_pb.js";
import type {
  CheckedModelJson,
  CheckUpstreamResponseJson,
} from "../../../../gen/unified/admin/v1/upstream_service_pb.js";
import { call } from "../../lib/api.js";
import { milliseconds, wholeNumber } from "../../lib/format.js";
import { useData } from "../../lib/use-data.js";
import { Dialog } from "../../ui/dialog.js";
import { Badge, Loading, Problem } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";
import { Facts } from "../../ui/values.js";
import { kindTitle } from "./upstream.js";

export interface TestUpstreamProps {
  readonly upstream: UpstreamJson;
  readonly onClose: () => void;
}

/** Queries an upstream for its models and version, and shows them. */
export function TestUpstream({ upstream: { name = "" }, onClose }: TestUpstreamProps) {
  const [round, setRound] = useState(0);
  const { value, error } = useData(
    (signal) => call("unified.admin.v1.UpstreamService/CheckUpstream", { name }, signal),
    [name, round],
  );
  const isRunning = value === null && error === null;
  return (
    <Dialog title={`Test ${name}`} onClose={onClose}>
      <div class="stack">
        <div class="stack" aria-live="polite">
          {isRunning && <Loading />}
          <Problem error={error} />
          {value !== null && <CheckResult result={value} />}
        </div>
        <footer>
          <button type="button" aria-disabled={isRunning} onClick={() => !isRunning && setRound(round + 1)}>
            Test again
          </button>
        </footer>
      </div>
    </Dialog>
  );
}

const columns: readonly Column<CheckedModelJson>[] = [
  { title: "Model", cell: ({ id }) => <span class="value">{id}</span> },
  {
    title: "Capabilities",
    cell: ({ capabilities = [] }) => capabilities.join(", ") || "None that this service supports",
  },
  {
    title: "Context",
    cell: ({ contextLength }) => (contextLength === undefined ? "Not stated" : `${wholeNumber(contextLength)} tokens`),
    isNumber: true,
  },
];

const modelsShown = 50;

/** Shows the kind, version and models of a server, or why it cannot be used. */
export function CheckResult({ result }: { readonly result: CheckUpstreamResponseJson }) {
  const { usable = false, problem = "", fix = "", kind, version = "", latencyMs, models = [] } = result;
  if (!usable) {
    return (
      <>
        <div>
          <Badge tone="bad">Failed</Badge>
        </div>
        <p>{problem}.</p>
        <p class="faint">To fix it: {fix}.</p>
      </>
    );
  }
  return (
    <>
      <div>
        <Badge tone="good">Works</Badge>
      </div>
      <Facts
        of={{
          Kind: kindTitle(kind),
          Version: version === "" ? "Not stated" : version,
          Latency: milliseconds(latencyMs),
          Models: models.length > modelsShown ? `${wholeNumber(models.length)}, the first ${modelsShown} below` : null,
        }}
      />
      {models.length === 0 && <p class="faint">It lists no models.</p>}
      {models.length > 0 && (
        <Table
          caption="Models of the server"
          columns={columns}
          rows={models.slice(0, modelsShown)}
          keyOf={({ id = "" }) => id}
        />
      )}
    </>
  );
}
