import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { WatchOverviewResponseJson } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { type OpenOverview, silenceMs, watchOverview } from "../../../src/dashboard/pages/overview/watch-overview.js";

/** A connection whose messages the test sends. It ends when its signal is aborted, like a browser's stream. */
class HandConnection {
  readonly signal: AbortSignal;
  #waiting: WatchOverviewResponseJson[] = [];
  #end: Error | "end" | null = null;
  #wake = (): void => {};

  constructor(signal: AbortSignal) {
    this.signal = signal;
    signal.addEventListener("abort", () => this.end(new Error("aborted")));
  }

  tell(...messages: WatchOverviewResponseJson[]): void {
    this.#waiting.push(...messages);
    this.#wake();
  }

  end(how: Error | "end"): void {
    this.#end ??= how;
    this.#wake();
  }

  async *messages(): AsyncGenerator<WatchOverviewResponseJson> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next !== undefined) yield next;
      else if (this.#end === "end") return;
      else if (this.#end !== null) throw this.#end;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}

function watching() {
  const connections: HandConnection[] = [];
  const states: string[] = [];
  const readings: object[] = [];
  const open: OpenOverview = (signal) => {
    const connection = new HandConnection(signal);
    connections.push(connection);
    return connection.messages();
  };
  const stop = watchOverview(open, {
    onReading: (system) => readings.push(system),
    onConnection: (connection) =>
      states.push(connection.state === "disconnected" ? `disconnected: ${connection.error.message}` : connection.state),
  });
  return { connections, states, readings, stop };
}

const whole = { system: { version: "1.0.0", now: "2026-01-01T00:00:00Z" }, at: "2026-01-01T00:00:00Z" };
const same = { at: "2026-01-01T00:00:02Z" };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it("the overview stream is live from the first update on, and keeps fields that later updates omit", async () => {
  const { connections, states, readings, stop } = watching();
  connections[0]?.tell(whole, same);
  await vi.advanceTimersByTimeAsync(0);
  expect(states).toEqual(["connecting", "live"]);
  expect(readings).toEqual([whole.system, { version: "1.0.0", now: same.at }]);
  stop();
});

it("the overview stream reconnects with a backoff of up to 30 seconds, and reports why it is disconnected", async () => {
  const { connections, states, stop } = watching();
  const waits: number[] = [];
  for (let round = 0; round < 8; round++) {
    connections.at(-1)?.end(new Error("no answer"));
    let waited = 0;
    const before = connections.length;
    while (connections.length === before) {
      await vi.advanceTimersByTimeAsync(500);
      waited += 500;
    }
    waits.push(waited / 1_000);
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 30, 30, 30]);
  expect(new Set(states)).toEqual(new Set(["connecting", "disconnected: no answer"]));
  stop();
});

it("the overview stream reconnects without backoff when a healthy connection ends, as at the service's deadline", async () => {
  const { connections, states, stop } = watching();
  connections[0]?.tell(whole, same);
  await vi.advanceTimersByTimeAsync(0);
  connections[0]?.end("end");
  await vi.advanceTimersByTimeAsync(0);
  expect(connections).toHaveLength(2);
  connections[1]?.tell(whole);
  await vi.advanceTimersByTimeAsync(0);
  expect(states).toEqual(["connecting", "live", "connecting", "live"]);
  stop();
});

it("the overview stream closes a connection without data for 8 seconds", async () => {
  const { connections, states, stop } = watching();
  connections[0]?.tell(whole);
  await vi.advanceTimersByTimeAsync(silenceMs);
  expect(connections[0]?.signal.aborted).toBe(true);
  expect(states.at(-1)).toBe("disconnected: No data from the service for 8 seconds.");
  stop();
});

it("the overview stream reports nothing after it is stopped", async () => {
  const { connections, states, stop } = watching();
  connections[0]?.tell(whole);
  await vi.advanceTimersByTimeAsync(0);
  stop();
  expect(connections[0]?.signal.aborted).toBe(true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([connections.length, states]).toEqual([1, ["connecting", "live"]]);
  expect(vi.getTimerCount()).toBe(0);
});
