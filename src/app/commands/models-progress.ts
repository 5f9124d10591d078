import type { PullProgress } from "../../domain/catalog/model-store.js";
import { byteText } from "../../lib/display-text.js";
import type { TextOutput } from "../command-line/cli-io.js";

interface ProgressText {
  show(progress: PullProgress): void;
  /** Leaves the last state as it is; later text begins on a line of its own. */
  end(): void;
}

const redrawMs = 100;
const barCells = 30;
const shareStep = 0.1;
/** Told once per so much of a file whose size is not known. */
const unknownStepBytes = 100_000_000;

/** A pull's progress on stderr: a bar that is redrawn where people look on, else a line for each tenth. */
export function createProgressText(output: TextOutput, nowMs: () => number): ProgressText {
  return output.isTTY === true ? progressBar(output, nowMs) : progressLines(output);
}

/** At most ten times a second; the last state is always drawn. */
function progressBar(output: TextOutput, nowMs: () => number): ProgressText {
  let drawnAtMs = Number.NEGATIVE_INFINITY;
  let drawn = "";
  let newest = "";
  const draw = (): void => {
    output.write(`\r${newest.padEnd(drawn.length)}`);
    drawn = newest;
  };
  return {
    show(progress) {
      newest = barText(progress);
      if (nowMs() - drawnAtMs < redrawMs) return;
      drawnAtMs = nowMs();
      draw();
    },
    end() {
      if (newest === "") return;
      if (newest !== drawn) draw();
      output.write("\n");
    },
  };
}

function progressLines(output: TextOutput): ProgressText {
  let told = -1;
  return {
    show(progress) {
      const { receivedBytes, totalBytes } = progress;
      const step =
        totalBytes === null ? receivedBytes / unknownStepBytes : shareOf(receivedBytes, totalBytes) / shareStep;
      // Less than before: another source of the same model begins anew.
      if (Math.floor(step) === told) return;
      told = Math.floor(step);
      output.write(`fetching: ${stateText(progress)}\n`);
    },
    end() {},
  };
}

function barText(progress: PullProgress): string {
  const { receivedBytes, totalBytes } = progress;
  if (totalBytes === null) return stateText(progress);
  const full = Math.floor(shareOf(receivedBytes, totalBytes) * barCells);
  return `[${"#".repeat(full)}${"-".repeat(barCells - full)}] ${stateText(progress)}`;
}

/** ` 40 %, 256 MB of 639 MB` */
function stateText({ receivedBytes, totalBytes }: PullProgress): string {
  if (totalBytes === null) return byteText(receivedBytes);
  const percent = Math.floor(shareOf(receivedBytes, totalBytes) * 100);
  return `${percent.toString().padStart(3)} %, ${byteText(receivedBytes)} of ${byteText(totalBytes)}`;
}

function shareOf(receivedBytes: number, totalBytes: number): number {
  return totalBytes === 0 ? 0 : Math.min(1, receivedBytes / totalBytes);
}
