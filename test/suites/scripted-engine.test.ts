import { scriptedEngine } from "../../src/engines/scripted/scripted-model.js";
import type { ScriptedOptions } from "../../src/engines/scripted/scripted-options.js";
import { createSystemClock } from "../../src/lib/clock.js";
import { createRandomIds } from "../../src/lib/crypto.js";
import { describeEngine } from "./engine.suite.js";

const engine = scriptedEngine.create({ clock: createSystemClock(), ids: createRandomIds() });
const load = (options: ScriptedOptions) =>
  engine.load(
    { id: "m", deployment: "d", contextLength: 4096, slots: 2, options },
    () => {},
    new AbortController().signal,
  );
const text = "Once upon a time there was a small fox who lived 🦊 under a hill. ";

describeEngine("scripted", {
  chat: () => load({ text, tokens: 40 }),
  slowChat: () => load({ text, tokens: 2_000, token_delay_ms: 5 }),
  ownSlowChat: () => load({ text, tokens: 2_000, token_delay_ms: 5 }),
  embeddings: () => load({ dimensions: 8 }),
  rerank: () => load({ rerank: true }),
});
