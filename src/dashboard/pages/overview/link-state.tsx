import { Badge } from "../../ui/feedback.js";
import type { Link } from "./watch-overview.js";

interface LinkStateProps {
  readonly link: Link;
  /** When what is shown was true, in words. */
  readonly at: string;
  readonly onRetry: () => void;
}

/** Whether the page shows what is. Always there, so that nothing moves when it changes; read out then. */
export function LinkState({ link, at, onRetry }: LinkStateProps) {
  return (
    <div class="row link-state">
      <p role="status">
        <Word link={link} at={at} />
      </p>
      {link.state === "away" && (
        <button type="button" onClick={onRetry}>
          Try now
        </button>
      )}
    </div>
  );
}

function Word({ link, at }: Pick<LinkStateProps, "link" | "at">) {
  if (link.state === "live") return <Badge tone="good">Live</Badge>;
  if (link.state === "connecting") return <Badge tone="plain">Connecting</Badge>;
  return (
    <>
      <Badge tone="bad">Not live</Badge> {link.error.message} {at !== "" && `What is shown is of ${at}. `}
      It is tried again.
    </>
  );
}
