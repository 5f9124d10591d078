import { EventEmitter } from "node:events";
import { describe, expect, it } from "vitest";
import { ClosePace } from "../../../../src/transports/grpc/http2.js";

/** A stream of a refused call. */
class HalfOpenStream extends EventEmitter {
  closed = false;
  /** `remoteClose`: whether the client has sent the whole request. */
  readonly state = { remoteClose: 0 };

  close(): void {
    this.closed = true;
    this.emit("close");
  }

  resume(): this {
    return this;
  }
}

function startPace() {
  const windows: (() => void)[] = [];
  const pace = new ClosePace((_, run) => windows.push(run));
  const endWindow = (): void => {
    for (const run of windows.splice(0)) run();
  };
  return { pace, endWindow };
}

function refuse(pace: ClosePace, count: number, bytes: number): HalfOpenStream[] {
  return Array.from({ length: count }, () => {
    const stream = new HalfOpenStream();
    pace.close(stream as unknown as Parameters<ClosePace["close"]>[0], bytes);
    return stream;
  });
}

const closedOf = (streams: readonly HalfOpenStream[]): number => streams.filter(({ closed }) => closed).length;

describe("streams of refused calls (E-2)", () => {
  it("are closed at once, up to ten in a window of 50 ms, and the others in later windows", () => {
    const { pace, endWindow } = startPace();
    const streams = refuse(pace, 25, 0);
    const counts = [closedOf(streams)];
    for (let i = 0; i < 3; i += 1) {
      endWindow();
      counts.push(closedOf(streams));
    }
    expect(counts).toEqual([10, 20, 25, 25]);
  });

  it("are closed more slowly the more of their requests has arrived", () => {
    const { pace, endWindow } = startPace();
    const [large] = refuse(pace, 1, 20 * 1_024 * 1_024);
    const next = refuse(pace, 1, 0);
    expect(large?.closed).toBe(true);
    let windows = 0;
    for (; closedOf(next) === 0; windows += 1) endWindow();
    expect(windows).toBe(8);
  });

  it("are closed at once if the request is complete, and in the next window if it becomes complete", () => {
    const { pace, endWindow } = startPace();
    const waiting = refuse(pace, 30, 0);
    const complete = new HalfOpenStream();
    complete.state.remoteClose = 1;
    pace.close(complete as unknown as Parameters<ClosePace["close"]>[0], 0);
    expect(complete.closed).toBe(true);
    for (const { state } of waiting) state.remoteClose = 1;
    endWindow();
    expect(closedOf(waiting)).toBe(30);
  });

  it("do not wait behind streams that their clients have closed", () => {
    const { pace, endWindow } = startPace();
    const gone = refuse(pace, 1_000, 0);
    for (const stream of gone) stream.close();
    const next = refuse(pace, 1, 0);
    endWindow();
    expect(closedOf(next)).toBe(1);
  });
});
