import { afterEach, beforeEach } from "vitest";
import type { State } from "../../src/domain/state.js";

/** An empty state whose time a test can move. */
export interface StateHarness {
  readonly state: State;
  /** Moves the store's time on, all of it: windows, leases, periods. Real time may pass beside it. */
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** What a suite runs on: a new empty state for each test. */
export type OpenState = () => Promise<StateHarness>;

/** Opens a state before each test of the surrounding `describe` and closes it afterwards. */
export function eachTest(open: OpenState): StateHarness {
  let current: StateHarness | undefined;
  const harness = (): StateHarness => {
    if (current === undefined) throw new Error("no test is running");
    return current;
  };
  beforeEach(async () => {
    current = await open();
  });
  afterEach(async () => {
    await current?.close();
    current = undefined;
  });
  return {
    get state() {
      return harness().state;
    },
    advance: (ms) => harness().advance(ms),
    close: () => harness().close(),
  };
}
