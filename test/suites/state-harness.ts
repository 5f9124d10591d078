import { afterEach, beforeEach } from "vitest";
import type { State } from "../../src/domain/service/state.js";

/** An empty state whose time a test can advance. */
export interface StateHarness {
  readonly state: State;
  /**
   * Precision in ms with which a test can reach an instant: 1 if time advances only by `advance`, more if real time passes
   * too.
   */
  readonly leewayMs: number;
  /** Advances the store's time for windows, leases and periods. Real time may pass too. */
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** Maximum values, small enough for tests. The driver's default applies to an absent one. */
export interface StateBounds {
  /** Maximum number of open deliveries of an account (WH-52). */
  readonly openDeliveriesMax?: number;
  /** Maximum number of events of an account whose deliveries are not created yet (E-30). */
  readonly waitingEventsMax?: number;
  /** Maximum number of delivered deliveries that keep their payload (WH-50). */
  readonly deliveredKeptMax?: number;
}

/** Creates a new empty state for each test of a suite. */
export type OpenState = (bounds?: StateBounds) => Promise<StateHarness>;

/** Opens a state before each test of the surrounding `describe` and closes it afterwards. */
export function eachTest(open: OpenState, bounds: StateBounds = {}): StateHarness {
  let current: StateHarness | undefined;
  const harness = (): StateHarness => {
    if (current === undefined) throw new Error("no test is running");
    return current;
  };
  beforeEach(async () => {
    current = await open(bounds);
  });
  afterEach(async () => {
    await current?.close();
    current = undefined;
  });
  return {
    get state() {
      return harness().state;
    },
    get leewayMs() {
      return harness().leewayMs;
    },
    advance: (ms) => harness().advance(ms),
    close: () => harness().close(),
  };
}
