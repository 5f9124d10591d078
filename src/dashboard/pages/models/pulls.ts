/** The pull that runs: it goes on while other pages are shown, and ends when the tab is closed. */
import { useEffect, useState } from "preact/hooks";
import type { PullModelRequestJson } from "../../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { stream } from "../../api.js";

export interface Pull {
  readonly request: PullModelRequestJson;
  /** What was asked for. */
  readonly name: string;
  readonly state: "running" | "done" | "stopped" | "failed";
  readonly receivedBytes: number;
  /** 0: not known yet. */
  readonly totalBytes: number;
  readonly warnings: readonly string[];
  /** Why it failed. */
  readonly error: Error | null;
}

let current: Pull | null = null;
let stopper = new AbortController();
const listeners = new Set<(pull: Pull | null) => void>();

function show(pull: Pull | null): void {
  current = pull;
  for (const listener of listeners) listener(pull);
}

/** The last pull of this tab; null when there was none. */
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

/** Stops the pull. What was fetched is kept for a later attempt. */
export function stopPull(): void {
  stopper.abort();
}

/** Forgets a pull that has ended. */
export function forgetPull(): void {
  show(null);
}

/** Pulls a model; to be called when none is pulled. */
export async function startPull(request: PullModelRequestJson): Promise<void> {
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
