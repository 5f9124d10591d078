import { describe, expect, it } from "vitest";
import { createProgressText } from "../../../../src/app/commands/models.js";

const totalBytes = 50_000_000;
/** Moves the cursor to the beginning of the line, and erases the rest of the screen. */
const redraw = "\r\u001b[J";

function record(isTTY: boolean) {
  const time = { ms: 0 };
  const writes: string[] = [];
  const output = { isTTY, write: (text: string) => writes.push(text) };
  return { time, writes, progress: createProgressText(output, () => time.ms) };
}

describe("progress of a pull", () => {
  it("is one line per ten percent if the output is not a terminal", () => {
    const { writes, progress } = record(false);
    for (let percent = 0; percent <= 100; percent++) {
      progress.show({ receivedBytes: (totalBytes * percent) / 100, totalBytes });
    }
    progress.end();
    expect(writes).toHaveLength(11);
    expect(writes[0]).toBe("fetching:   0 %, 0 bytes of 50.0 MB\n");
    expect(writes[4]).toBe("fetching:  40 %, 20.0 MB of 50.0 MB\n");
    expect(writes[10]).toBe("fetching: 100 %, 50.0 MB of 50.0 MB\n");
  });

  it("is one line per 100 MB if the size is unknown", () => {
    const { writes, progress } = record(false);
    for (let megabytes = 0; megabytes <= 250; megabytes++) {
      progress.show({ receivedBytes: megabytes * 1e6, totalBytes: null });
    }
    expect(writes).toEqual(["fetching: 0 bytes\n", "fetching: 100 MB\n", "fetching: 200 MB\n"]);
  });

  it("starts again at a lower percentage when another source is tried", () => {
    const { writes, progress } = record(false);
    for (const receivedBytes of [0, 10_000_000, 0, 10_000_000]) progress.show({ receivedBytes, totalBytes });
    expect(writes).toHaveLength(4);
  });

  it("is an ASCII bar on a terminal, redrawn at most ten times a second and once at the end", () => {
    const { time, writes, progress } = record(true);
    for (let step = 0; step <= 1000; step++) {
      time.ms = step;
      progress.show({ receivedBytes: (totalBytes * step) / 1000, totalBytes });
    }
    progress.show({ receivedBytes: totalBytes, totalBytes });
    progress.end();
    expect(writes.length).toBeLessThanOrEqual(13);
    expect(writes[0]).toBe(`${redraw}[------------------------------]   0 %  0 bytes of 50.0 MB`);
    expect(writes[6]).toBe(`${redraw}[##################------------]  60 %  30.0 of 50.0 MB  50.0 MB/s  1 s left`);
    expect(writes.at(-1)).toBe("[##############################] 100 %  50.0 of 50.0 MB\n");
  });

  it("shows rate and remaining time from the last seconds, also of a resumed download", () => {
    const { time, writes, progress } = record(false);
    const atMs = (ms: number, receivedBytes: number) => {
      time.ms = ms;
      progress.show({ receivedBytes, totalBytes });
    };
    atMs(0, 10_000_000);
    atMs(1_000, 20_000_000);
    atMs(20_000, 30_000_000);
    atMs(22_000, 32_000_000);
    atMs(24_000, 42_000_000);
    expect(writes.map((line) => line.split(", ").slice(2).join(", "))).toEqual([
      "",
      "10.0 MB/s, 3 s left\n",
      "526 kB/s, 38 s left\n",
      "1.0 MB/s, 18 s left\n",
      "3.0 MB/s, 3 s left\n",
    ]);
  });

  it("has a line for the conversion that follows a download", () => {
    const { writes, progress } = record(false);
    progress.show({ receivedBytes: totalBytes, totalBytes });
    progress.show({ stage: "converting", receivedBytes: 0, totalBytes: null });
    expect(writes).toEqual(["fetching: 100 %, 50.0 MB of 50.0 MB\n", "converting\n"]);
  });

  it("is empty if nothing was downloaded", () => {
    const { writes, progress } = record(true);
    progress.end();
    expect(writes).toEqual([]);
  });
});
