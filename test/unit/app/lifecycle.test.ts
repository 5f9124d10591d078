import { describe, expect, it } from "vitest";
import { Lifecycle, type Stoppable } from "../../../src/app/process/lifecycle.js";
import { silentLog } from "../../support/silent-log.js";

/** A stoppable service that records its calls and becomes idle on demand. */
function createStoppable(options: { emptyAt?: "once" | "when ended" } = {}) {
  const steps: string[] = [];
  let empty = () => {};
  const emptied = new Promise<void>((resolve) => {
    empty = resolve;
  });
  if (options.emptyAt === "once") empty();
  const stoppable: Stoppable = {
    announceStop: () => steps.push("announce"),
    refuseNew: () => steps.push("refuse"),
    emptied: () => emptied,
    endCalls: () => {
      steps.push("end calls");
      empty();
    },
  };
  return { steps, stoppable, empty };
}

function createLifecycle({ drainDelayMs = 0, drainMs = 60_000 } = {}): Lifecycle {
  return new Lifecycle({ drainDelayMs, limits: { drainMs }, log: silentLog });
}

describe("Lifecycle", () => {
  it("is ready only between the end of startup and the beginning of the stop (REL-11)", async () => {
    const lifecycle = createLifecycle();
    const { stoppable } = createStoppable({ emptyAt: "once" });
    expect(lifecycle.phase).toBe("starting");
    lifecycle.started();
    expect(lifecycle.phase).toBe("ready");
    const stopped = lifecycle.stop(stoppable);
    expect(lifecycle.phase).toBe("draining");
    await stopped;
    expect(lifecycle.phase).toBe("stopped");
    lifecycle.started();
    expect(lifecycle.phase).toBe("stopped");
  });

  it("announces the stop before it rejects calls, and closes when no call is running", async () => {
    const lifecycle = createLifecycle();
    const { steps, stoppable, empty } = createStoppable();
    lifecycle.onClose("listener", () => void steps.push("close listener"));
    const stopped = lifecycle.stop(stoppable);
    await new Promise(setImmediate);
    expect(steps).toEqual(["announce", "refuse"]);
    empty();
    await stopped;
    expect(steps).toEqual(["announce", "refuse", "close listener"]);
  });

  it("accepts calls during the drain delay", async () => {
    const lifecycle = createLifecycle({ drainDelayMs: 20 });
    const { steps, stoppable } = createStoppable({ emptyAt: "once" });
    const stopped = lifecycle.stop(stoppable);
    await new Promise(setImmediate);
    expect(steps).toEqual(["announce"]);
    await stopped;
    expect(steps).toEqual(["announce", "refuse"]);
  });

  it("aborts the running calls when limits.drain has expired", async () => {
    const lifecycle = createLifecycle({ drainMs: 5 });
    const { steps, stoppable } = createStoppable({ emptyAt: "when ended" });
    await lifecycle.stop(stoppable);
    expect(steps).toEqual(["announce", "refuse", "end calls"]);
  });

  it("uses the value that limits.drain has when the stop begins", async () => {
    const limits = { drainMs: 60_000 };
    const lifecycle = new Lifecycle({ drainDelayMs: 0, limits, log: silentLog });
    const { steps, stoppable } = createStoppable({ emptyAt: "when ended" });
    limits.drainMs = 5;
    await lifecycle.stop(stoppable);
    expect(steps).toEqual(["announce", "refuse", "end calls"]);
  });

  it("skips the drain delay and uses the given drain time at an interactive stop", async () => {
    const lifecycle = createLifecycle({ drainDelayMs: 60_000, drainMs: 60_000 });
    const { steps, stoppable } = createStoppable({ emptyAt: "when ended" });
    await lifecycle.stop(stoppable, 5);
    expect(steps).toEqual(["announce", "refuse", "end calls"]);
  });

  it("closes in reverse order of opening, even if a part fails to close", async () => {
    const lifecycle = createLifecycle();
    const closed: string[] = [];
    lifecycle.onClose("first", () => void closed.push("first"));
    lifecycle.onClose("second", () => Promise.reject(new Error("stuck")));
    lifecycle.onClose("third", async () => void closed.push("third"));
    await lifecycle.close();
    expect(closed).toEqual(["third", "first"]);
  });

  it("waits for tracked promises, and stops normally if they fail", async () => {
    const lifecycle = createLifecycle();
    let finish = () => {};
    const slow = new Promise<void>((resolve) => {
      finish = resolve;
    });
    lifecycle.track("slow work", slow);
    lifecycle.track("bad work", Promise.reject(new Error("broken")));
    let closed = false;
    const closing = lifecycle.close().then(() => {
      closed = true;
    });
    await new Promise(setImmediate);
    expect(closed).toBe(false);
    finish();
    await closing;
  });

  it("stops only once, even if stop is called several times", async () => {
    const lifecycle = createLifecycle();
    const { steps, stoppable } = createStoppable({ emptyAt: "once" });
    await Promise.all([lifecycle.stop(stoppable), lifecycle.stop(stoppable)]);
    expect(steps).toEqual(["announce", "refuse"]);
  });
});
