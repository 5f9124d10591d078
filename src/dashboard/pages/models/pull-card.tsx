import { useEffect } from "preact/hooks";
import { bytes } from "../../format.js";
import { Badge, Problem, type Tone } from "../../ui/feedback.js";
import { forgetPull, type Pull, stopPull, usePull } from "./pulls.js";

const states: Readonly<Record<Pull["state"], readonly [Tone, string]>> = {
  running: ["busy", "being pulled"],
  done: ["good", "pulled and loaded"],
  stopped: ["plain", "stopped; what was fetched is kept"],
  failed: ["bad", "failed"],
};

/** How far the pull is. `onEnd` is called when it has ended. */
export function PullCard({ onEnd }: { readonly onEnd: () => void }) {
  const pull = usePull();
  const state = pull?.state;
  useEffect(() => {
    if (state === "done") onEnd();
  }, [state]);
  if (pull === null) return null;
  const [tone, words] = states[pull.state];
  return (
    <section class="card stack" aria-label="Pull">
      <div class="row spread">
        <div role="status">
          <span class="value">{pull.name}</span> <Badge tone={tone}>{words}</Badge>
        </div>
        {pull.state === "running" ? (
          <button type="button" onClick={stopPull}>
            Stop
          </button>
        ) : (
          <button type="button" onClick={forgetPull}>
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
      <progress aria-label={`Pull of ${name}`} max={1} {...(isKnown ? { value: receivedBytes / totalBytes } : {})} />
      <small>
        {bytes(receivedBytes)}
        {isKnown && ` of ${bytes(totalBytes)}, ${Math.floor((100 * receivedBytes) / totalBytes)} %`}
      </small>
      <p class="faint">Keep this tab open: closing it stops the pull.</p>
    </div>
  );
}
