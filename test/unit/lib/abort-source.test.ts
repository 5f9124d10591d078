import { describe, expect, it } from "vitest";
import { AbortSource } from "../../../src/lib/abort-source.js";

describe("AbortSource", () => {
  it("notifies every listener once, with the first reason", () => {
    const abort = new AbortSource();
    const told: unknown[] = [];
    abort.addEventListener("abort", () => told.push(abort.reason));
    abort.abort("first");
    abort.abort("second");
    expect([abort.aborted, told]).toEqual([true, ["first"]]);
  });

  it("does not notify removed listeners, also if another listener removed them", () => {
    const abort = new AbortSource();
    const told: string[] = [];
    const late = (): void => void told.push("late");
    abort.addEventListener("abort", () => abort.removeEventListener("abort", late));
    abort.addEventListener("abort", late);
    abort.abort("over");
    abort.addEventListener("abort", late);
    expect(told).toEqual([]);
  });

  it("creates a single signal, which is aborted together with the source", () => {
    const abort = new AbortSource();
    const { signal } = abort;
    expect([abort.signal === signal, signal.aborted]).toEqual([true, false]);
    abort.abort("over");
    expect([signal.aborted, signal.reason]).toEqual([true, "over"]);
  });

  it("creates an aborted signal if it was aborted before", () => {
    const abort = new AbortSource();
    abort.abort("over");
    expect([abort.signal.aborted, abort.signal.reason]).toEqual([true, "over"]);
  });
});
