import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import { isatty } from "node:tty";

/** The terminal that the process was started from. */
export interface Terminal {
  /** Whether the terminal's window, or the connection to its machine, has been closed. */
  isLost(): boolean;
  /**
   * Replaces the descriptors of a lost terminal by the null device: on exit Node restores the mode of its terminal, and
   * aborts or hangs if that is closed.
   */
  release(): void;
}

/** Must be called when the process starts, before the terminal can close. */
export function startTerminal(): Terminal {
  const descriptors = [0, 1, 2].filter((descriptor) => isatty(descriptor));
  const isLost = (): boolean => descriptors.some((descriptor) => !isatty(descriptor));
  return {
    isLost,
    release() {
      if (!isLost()) return;
      for (const descriptor of descriptors.splice(0)) {
        closeSync(descriptor);
        // The system gives the lowest free number, which is the one just closed.
        openSync(devNull, descriptor === 0 ? "r" : "w");
      }
    },
  };
}
