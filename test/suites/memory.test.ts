import { openMemoryState } from "../../src/state/embedded/memory-state.js";
import { FakeClock } from "../support/fake-clock.js";
import { describeState } from "./state.suite.js";

describeState("in memory", async (bounds) => {
  const clock = new FakeClock();
  const state = openMemoryState({ clock, ...bounds });
  return { state, leewayMs: 1, advance: async (ms) => clock.advance(ms), close: () => state.close() };
});
