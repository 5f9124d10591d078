import { useState } from "preact/hooks";
import type { UpstreamJson } from "../../../../gen/unified/admin/v1/upstream_pb.js";
import type { CheckUpstreamResponseJson } from "../../../../gen/unified/admin/v1/upstream_service_pb.js";
import { call } from "../../lib/api.js";
import { Confirm, useAction } from "../../ui/action.js";
import { Dialog } from "../../ui/dialog.js";
import { Problem } from "../../ui/feedback.js";
import { Form } from "../../ui/form.js";
import { CheckResult } from "./check.js";
import { ServerFields } from "./server-fields.js";
import { isStored } from "./upstream.js";
import {
  checkRequest,
  createRequest,
  draftOf,
  emptyDraft,
  type UpstreamDraft,
  updateRequest,
} from "./upstream-draft.js";

export interface UpstreamDialogProps {
  readonly upstream: UpstreamJson;
  /** Called when the upstream has changed. */
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Adds an upstream, with a button that tests it first. */
export function AddUpstream({ onDone, onClose }: Omit<UpstreamDialogProps, "upstream">) {
  const [draft, setDraft] = useState(emptyDraft);
  const [result, setResult] = useState<CheckUpstreamResponseJson | null>(null);
  const change = (part: Partial<UpstreamDraft>): void => {
    setDraft({ ...draft, ...part });
    // The last test was of another server or key.
    if (["url", "kind", "key", "headers"].some((field) => field in part)) setResult(null);
  };
  const check = async (): Promise<CheckUpstreamResponseJson> => {
    return await call("unified.admin.v1.UpstreamService/CheckUpstream", checkRequest(draft));
  };
  const test = useAction(async () => {
    setResult(null);
    setResult(await check());
  });
  const add = async (): Promise<void> => {
    const kind = draft.kind || kindOf(result ?? (await check()));
    await call("unified.admin.v1.UpstreamService/CreateUpstream", createRequest(draft, kind));
    onDone();
    onClose();
  };
  return (
    <Dialog title="Add an upstream" onClose={onClose}>
      <Form verb="Add upstream" send={add} onCancel={onClose}>
        <ServerFields
          draft={draft}
          onChange={change}
          models={(result?.models ?? []).map(({ id = "" }) => ({ value: id }))}
          headerNames={null}
        />
        <div class="stack">
          <div>
            <button type="button" disabled={test.isRunning || draft.url.trim() === ""} onClick={test.start}>
              {test.isRunning ? "Testing…" : "Test"}
            </button>
          </div>
          <div class="stack" aria-live="polite">
            <Problem error={test.error} />
            {result !== null && <CheckResult result={result} />}
          </div>
        </div>
      </Form>
    </Dialog>
  );
}

/** The kind that a check has found. Throws for a server that cannot be used, whose kind has to be chosen. */
function kindOf({ usable = false, kind = "", problem = "", fix = "" }: CheckUpstreamResponseJson): string {
  if (usable) return kind;
  throw new Error(`${problem}: ${fix}. To add it now, choose its kind.`);
}

/** Edits a stored upstream. Its name and kind cannot change. */
export function EditUpstream({ upstream, onDone, onClose }: UpstreamDialogProps) {
  const [before] = useState(() => draftOf(upstream));
  const [draft, setDraft] = useState(before);
  const { deployments = [], headerNames = [] } = upstream;
  const models = [...new Set(deployments.map(({ upstreamModel = "" }) => upstreamModel))].map((value) => ({ value }));
  const save = async (): Promise<void> => {
    await call("unified.admin.v1.UpstreamService/UpdateUpstream", updateRequest(before, draft));
    onDone();
    onClose();
  };
  return (
    <Dialog title={`Edit ${before.name}`} onClose={onClose}>
      <Form verb="Save" send={save} onCancel={onClose}>
        <ServerFields
          draft={draft}
          onChange={(part) => setDraft({ ...draft, ...part })}
          models={models}
          headerNames={headerNames}
        />
      </Form>
    </Dialog>
  );
}

/** Deletes a stored upstream. An upstream of the same name in uis.yaml stays. */
export function DeleteUpstream({ upstream, onDone, onClose }: UpstreamDialogProps) {
  const { name = "", url = "" } = upstream;
  const run = async (): Promise<void> => {
    await call("unified.admin.v1.UpstreamService/DeleteUpstream", { name });
    onDone();
  };
  return (
    <Confirm title={`Delete ${name}?`} verb="Delete" run={run} onClose={onClose}>
      {isStored(upstream) ? (
        <>
          <code>{url}</code>
          <p>
            Its models get no more requests here, active requests finish, and its API key is deleted. Models without
            another deployment are no longer offered. This cannot be undone.
          </p>
        </>
      ) : (
        <p>
          The upstream of this name that was added here is deleted with its API key. The one in uis.yaml stays in use.
        </p>
      )}
    </Confirm>
  );
}
