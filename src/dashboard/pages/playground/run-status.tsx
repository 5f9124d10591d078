import { milliseconds, perSecond, wholeNumber } from "../../lib/format.js";
import { Problem } from "../../ui/feedback.js";
import type { Run, RunState, Speed } from "./run.js";

const titles: Readonly<Record<RunState, string>> = {
  idle: "",
  running: "Running…",
  done: "Done.",
  stopped: "Stopped.",
  failed: "Failed.",
};

/** The state of the run, announced by screen readers, and its speed. */
export function RunStatus({ run: { state, error, speed } }: { readonly run: Run }) {
  const isOver = state !== "running" && state !== "idle";
  return (
    <>
      <p class="run-status" role="status">
        {titles[state]} {isOver && speed !== null && <span class="faint">{textOf(speed)}</span>}
      </p>
      <Problem error={error} />
    </>
  );
}

function textOf({ firstTokenMs, tokensPerSecond, tokens, totalMs }: Speed): string {
  const parts = [
    ...(firstTokenMs === null ? [] : [`Time to first token ${milliseconds(firstTokenMs)}`]),
    ...(tokensPerSecond === null ? [] : [`${perSecond(tokensPerSecond)} tokens/s`]),
    ...(tokens === 0 ? [] : [`${wholeNumber(tokens)} tokens`]),
    `${milliseconds(totalMs)} total`,
  ];
  return parts.join(", ");
}

export interface RunButtonsProps {
  readonly run: Run;
  readonly verb: string;
}

/** The submit button, and a button that stops the run. */
export function RunButtons({ run: { state, stop }, verb }: RunButtonsProps) {
  const isRunning = state === "running";
  return (
    <>
      <button type="button" disabled={!isRunning} onClick={stop}>
        Stop
      </button>
      <button type="submit" class="primary" disabled={isRunning}>
        {verb}
      </button>
    </>
  );
}
