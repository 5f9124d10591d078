import { createContext, Script } from "node:vm";

const slot: { run: () => void } = { run: () => undefined };
const sandbox = createContext(slot);
const script = new Script("run()", { filename: "bounded-run" });

/** The code took longer than its time limit; it was stopped. */
export class RanTooLong extends Error {
  override readonly name = "RanTooLong";
}

/**
 * Runs synchronous code for `timeoutMs` (1 or more) at most, then throws RanTooLong. V8's watchdog can stop
 * the code at any point, so it must not leave an incomplete change in an object that is used afterwards.
 */
export function runBounded<T>(code: () => T, timeoutMs: number): T {
  const result: { value?: T } = {};
  slot.run = () => {
    result.value = code();
  };
  try {
    script.runInContext(sandbox, { timeout: Math.max(1, Math.ceil(timeoutMs)) });
  } catch (thrown) {
    if (isTimeout(thrown)) throw new RanTooLong(`stopped after ${timeoutMs} ms`, { cause: thrown });
    throw thrown;
  } finally {
    slot.run = () => undefined;
  }
  return result.value as T;
}

/** Checks the code, because an error of the sandbox's realm is not an instance of our Error. */
function isTimeout(thrown: unknown): boolean {
  return (
    typeof thrown === "object" && thrown !== null && "code" in thrown && thrown.code === "ERR_SCRIPT_EXECUTION_TIMEOUT"
  );
}
