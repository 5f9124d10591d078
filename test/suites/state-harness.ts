import { afterEach, beforeEach } from "vitest";
import type { State } from "../../src/domain/service/state.js";

/** An empty state whose time a test can advance. */
export interface StateHarness {
  readonly state: State;
  /** How near to an instant a test can move the time: 1 where only `advance` moves it, more where it also runs on. */
  readonly leewayMs: number;
  /** Advances the store's time for windows, leases and periods. Real time may pass too. */
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** Bounds that a test can reach; each is the driver's own where it is absent. */
export interface StateBounds {
  /** Open deliveries of an account (WH-52). */
  readonly openDeliveriesMax?: number;
  /** Delivered ones that keep their payload (WH-50). */
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
