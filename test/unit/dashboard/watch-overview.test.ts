import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { WatchOverviewResponseJson } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { type OpenOverview, silenceMs, watchOverview } from "../../../src/dashboard/pages/overview/watch-overview.js";

/** A connection that a test feeds; it ends with its signal, as a stream of the browser does. */
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
  const links: string[] = [];
  const looks: object[] = [];
  const open: OpenOverview = (signal) => {
    const connection = new HandConnection(signal);
    connections.push(connection);
    return connection.messages();
  };
  const stop = watchOverview(open, {
    look: (system) => looks.push(system),
    link: (link) => links.push(link.state === "away" ? `away: ${link.error.message}` : link.state),
  });
  return { connections, links, looks, stop };
}

const whole = { system: { version: "1.0.0", now: "2026-01-01T00:00:00Z" }, at: "2026-01-01T00:00:00Z" };
const same = { at: "2026-01-01T00:00:02Z" };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it("is live from the first look on, and keeps what a look does not tell anew", async () => {
  const { connections, links, looks, stop } = watching();
  connections[0]?.tell(whole, same);
  await vi.advanceTimersByTimeAsync(0);
  expect(links).toEqual(["connecting", "live"]);
  expect(looks).toEqual([whole.system, { version: "1.0.0", now: same.at }]);
  stop();
});

it("tries again after pauses that grow to thirty seconds, and says meanwhile why it is not live", async () => {
  const { connections, links, stop } = watching();
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
  expect(new Set(links)).toEqual(new Set(["connecting", "away: no answer"]));
  stop();
});

it("goes on at once when a good connection ends, as each does at the service's deadline", async () => {
  const { connections, links, stop } = watching();
  connections[0]?.tell(whole, same);
  await vi.advanceTimersByTimeAsync(0);
  connections[0]?.end("end");
  await vi.advanceTimersByTimeAsync(0);
  expect(connections).toHaveLength(2);
  connections[1]?.tell(whole);
  await vi.advanceTimersByTimeAsync(0);
  expect(links).toEqual(["connecting", "live", "connecting", "live"]);
  stop();
});

it("gives up a connection that is silent for longer than the service ever is", async () => {
  const { connections, links, stop } = watching();
  connections[0]?.tell(whole);
  await vi.advanceTimersByTimeAsync(silenceMs);
  expect(connections[0]?.signal.aborted).toBe(true);
  expect(links.at(-1)).toBe("away: Nothing was heard of the service for 8 seconds.");
  stop();
});

it("asks for nothing once it is stopped", async () => {
  const { connections, links, stop } = watching();
  connections[0]?.tell(whole);
  await vi.advanceTimersByTimeAsync(0);
  stop();
  expect(connections[0]?.signal.aborted).toBe(true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([connections.length, links]).toEqual([1, ["connecting", "live"]]);
  expect(vi.getTimerCount()).toBe(0);
});
