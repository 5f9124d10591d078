import { afterEach, beforeEach } from "vitest";
import type { State } from "../../src/domain/service/state.js";

/** An empty state whose time a test can advance. */
export interface StateHarness {
  readonly state: State;
  /**
   * Precision with which a test can reach an instant: 1 if only `advance` moves the time, more if it also runs by
   * itself.
   */
  readonly leewayMs: number;
  /** Advances the store's time for windows, leases and periods. Real time may pass too. */
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** Bounds small enough for tests; an absent one is the driver's default. */
export interface StateBounds {
  /** Open deliveries of an account (WH-52). */
  readonly openDeliveriesMax?: number;
  /** Events of an account that wait for their deliveries (E-30). */
  readonly waitingEventsMax?: number;
  /** Delivered deliveries that keep their payload (WH-50). */
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
