import { milliseconds, perSecond, wholeNumber } from "../../format.js";
import { Problem } from "../../ui/feedback.js";
import type { Run, RunState, Speed } from "./run.js";

const words: Readonly<Record<RunState, string>> = {
  idle: "",
  running: "Answering…",
  done: "Done.",
  stopped: "Stopped.",
  failed: "It failed.",
};

/** What is going on, in one sentence that is read out, and how fast it was. */
export function RunStatus({ run: { state, error, speed } }: { readonly run: Run }) {
  const isOver = state !== "running" && state !== "idle";
  return (
    <>
      <p class="run-status" role="status">
        {words[state]} {isOver && speed !== null && <span class="faint">{sentenceOf(speed)}</span>}
      </p>
      <Problem error={error} />
    </>
  );
}

function sentenceOf({ firstTokenMs, tokensPerSecond, tokens, totalMs }: Speed): string {
  const parts = [
    ...(firstTokenMs === null ? [] : [`First token after ${milliseconds(firstTokenMs)}`]),
    ...(tokensPerSecond === null ? [] : [`${perSecond(tokensPerSecond)} tokens/s`]),
    ...(tokens === 0 ? [] : [`${wholeNumber(tokens)} tokens`]),
    `${milliseconds(totalMs)} in all`,
  ];
  return parts.join(", ");
}

export interface RunButtonsProps {
  readonly run: Run;
  readonly verb: string;
}

/** The button that sends the form, or while it answers the one that stops it. */
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
