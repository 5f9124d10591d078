import { describe, expect, it } from "vitest";
import { createProgressText } from "../../../../src/app/commands/models.js";

const totalBytes = 50_000_000;

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

  it("restarts when another source is tried", () => {
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
    expect(writes[0]).toBe("\r[------------------------------]   0 %, 0 bytes of 50.0 MB");
    expect(writes.at(-2)).toContain("[##############################] 100 %");
    expect(writes.at(-1)).toBe("\n");
    expect(writes.join("")).toMatch(/^[\x20-\x7e\r\n]*$/);
  });

  it("overwrites a longer text completely", () => {
    const { time, writes, progress } = record(true);
    progress.show({ receivedBytes: 0, totalBytes });
    time.ms = 500;
    progress.show({ receivedBytes: 1, totalBytes: null });
    expect(writes[1]?.length).toBe(writes[0]?.length);
  });

  it("writes nothing if nothing was downloaded", () => {
    const { writes, progress } = record(true);
    progress.end();
    expect(writes).toEqual([]);
  });
});
