import { onTestFinished } from "vitest";
import type { LoadedModel } from "../../../src/domain/engine/engine.js";
import { loadUpstreamModel, upstreamSettings } from "./engine-calls.js";
import { type RawAnswer, RawUpstream, sse, streamHead } from "./raw-upstream.js";

/** Starts a server for the running test. */
export async function start(answer: RawAnswer): Promise<RawUpstream> {
  const upstream = await RawUpstream.start(answer);
  onTestFinished(() => upstream.close());
  return upstream;
}

/** Loads a model of the server for the running test. Its kind is azure, which has no list of models. */
export async function load(
  upstream: RawUpstream,
  settings: Parameters<typeof upstreamSettings>[1] = {},
  deps: Parameters<typeof loadUpstreamModel>[2] = {},
  options: Parameters<typeof loadUpstreamModel>[1] = {},
): Promise<LoadedModel> {
  const model = await loadUpstreamModel(upstreamSettings(upstream.url, { kind: "azure", ...settings }), options, deps);
  onTestFinished(() => model.unload(0));
  return model;
}

export const text = (content: string): string =>
  sse({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
export const finish = sse({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
export const done = sse("[DONE]");
/** An answer of one word. */
export const whole = `${streamHead}${text("Hello")}${finish}${done}`;
