import { AdminOnly } from "../../ui/admin-only.js";
import "./upstreams.css";
import { useId, useState } from "preact/hooks";
import type { UpstreamJson } from "../../../../gen/unified/admin/v1/upstream_pb.js";
import { call } from "../../lib/api.js";
import { useData } from "../../lib/use-data.js";
import { Empty, Loading, Problem } from "../../ui/feedback.js";
import { type MenuItem, RowMenu } from "../../ui/menu.js";
import { Facts, Moment } from "../../ui/values.js";
import { TestUpstream } from "./check.js";
import { DeploymentTable } from "./deployment-table.js";
import { isStored, keyText, kindTitle, modelsText, sourceText } from "./upstream.js";
import { AddUpstream, DeleteUpstream, EditUpstream } from "./upstream-dialogs.js";
import { secondsOf } from "./upstream-draft.js";

type UpstreamAction = "test" | "edit" | "delete";

type Opened = { readonly action: "add" } | { readonly action: UpstreamAction; readonly upstream: UpstreamJson };

/** Deployments change their state with every request. */
const refreshMs = 3_000;

/** Inference servers and providers whose models this service offers, with their deployments. */
export function Upstreams() {
  const [opened, setOpened] = useState<Opened | null>(null);
  const { value, error, reload } = useData(
    (signal) => call("unified.admin.v1.UpstreamService/ListUpstreams", {}, signal),
    [],
    refreshMs,
  );
  const upstreams = value?.upstreams ?? [];
  const close = (): void => setOpened(null);
  return (
    <div class="stack upstreams">
      <div class="row spread">
        <p class="faint">
          Inference servers and providers. Clients use their models like all others, with the keys of this service.
        </p>
        <AdminOnly>
          <button type="button" class="primary" onClick={() => setOpened({ action: "add" })}>
            Add upstream
          </button>
        </AdminOnly>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && upstreams.length === 0 && <NoUpstreams />}
      <ul class="stack upstream-list">
        {upstreams.map((upstream) => (
          <UpstreamCard
            key={`${upstream.source} ${upstream.name}`}
            upstream={upstream}
            onAction={(action) => setOpened({ action, upstream })}
            onChanged={reload}
          />
        ))}
      </ul>
      {opened?.action === "add" && <AddUpstream onDone={reload} onClose={close} />}
      {opened?.action === "test" && <TestUpstream upstream={opened.upstream} onClose={close} />}
      {opened?.action === "edit" && <EditUpstream upstream={opened.upstream} onDone={reload} onClose={close} />}
      {opened?.action === "delete" && <DeleteUpstream upstream={opened.upstream} onDone={reload} onClose={close} />}
    </div>
  );
}

function NoUpstreams() {
  return (
    <Empty>
      No upstreams yet. Add a server or provider here, in <code>uis.yaml</code>, or with <code>uis upstreams add</code>.
    </Empty>
  );
}

interface UpstreamCardProps {
  readonly upstream: UpstreamJson;
  readonly onAction: (action: UpstreamAction) => void;
  readonly onChanged: () => void;
}

/** An upstream with its deployments and actions. */
function UpstreamCard({ upstream, onAction, onChanged }: UpstreamCardProps) {
  const { name = "", url = "", problem = "", hidesStored = false, deployments = [] } = upstream;
  const titleId = useId();
  return (
    <li class="card stack" aria-labelledby={titleId}>
      <div class="row spread upstream-head">
        <div>
          <h2 id={titleId}>{name}</h2>
          <div class="value">{url}</div>
        </div>
        <RowMenu label={`Actions of ${name}`} items={actionsOf(upstream, onAction)} />
      </div>
      {problem !== "" && <p class="upstream-warning">{problem}</p>}
      {hidesStored && (
        <p class="upstream-warning">
          An upstream of this name that was added here is not used, because uis.yaml has one. Delete removes the added
          one.
        </p>
      )}
      <UpstreamFacts upstream={upstream} />
      {deployments.length > 0 && <DeploymentTable name={name} deployments={deployments} onChanged={onChanged} />}
    </li>
  );
}

function actionsOf(upstream: UpstreamJson, onAction: (action: UpstreamAction) => void): readonly MenuItem[] {
  const { hidesStored = false } = upstream;
  const test: MenuItem = { label: "Test", icon: "activity", onSelect: () => onAction("test") };
  const edit: MenuItem = { label: "Edit", icon: "edit", onSelect: () => onAction("edit") };
  const remove: MenuItem = { label: "Delete", icon: "trash", isDanger: true, onSelect: () => onAction("delete") };
  return [test, ...(isStored(upstream) ? [edit] : []), ...(isStored(upstream) || hidesStored ? [remove] : [])];
}

function UpstreamFacts({ upstream }: { readonly upstream: UpstreamJson }) {
  const {
    kind,
    weight = 1,
    priority = 0,
    slots = 0,
    headerNames = [],
    apiVersion = "",
    native = [],
    updatedAt,
    deployments = [],
  } = upstream;
  return (
    <Facts
      isWide
      of={{
        Kind: kindTitle(kind),
        Source: sourceText(upstream),
        Models: modelsText(upstream),
        "API key": keyText(upstream),
        "API version": apiVersion === "" ? null : apiVersion,
        "Native APIs": native.length === 0 ? null : native.join(", "),
        Timeouts: timeoutsOf(upstream),
        Headers: headerNames.length === 0 ? null : headerNames.join(", "),
        // For an upstream of uis.yaml these are settings of each model.
        Weight: isStored(upstream) ? String(weight) : null,
        Priority: isStored(upstream) ? String(priority) : null,
        Slots: isStored(upstream) ? String(slots) : null,
        Deployments: deployments.length === 0 ? "None" : null,
        Changed: updatedAt === undefined ? null : <Moment at={updatedAt} />,
      }}
    />
  );
}

/** The timeouts of calls to the upstream, in the order in which they apply. */
function timeoutsOf({ connect, firstByte, idle, total }: UpstreamJson): string | null {
  if (connect === undefined) return null;
  const [toConnect, toFirstByte, inIdle, inTotal] = [connect, firstByte, idle, total].map(secondsOf);
  return `Connect ${toConnect} s, first byte ${toFirstByte} s, idle ${inIdle} s, total ${inTotal} s`;
}
