import { describe, expect, it } from "vitest";
import { EngineError, type EngineErrorCode } from "../../../../src/domain/engine/engine.js";
import { createCoreHarness } from "../../../support/core-harness.js";
import { HandEngine } from "../../../support/hand-engine.js";
import { chat } from "../service/limited-harness.js";

const requests = 6;

/** A model whose first deployment is tried first. */
async function startCore() {
  const [first, second] = [new HandEngine(), new HandEngine()];
  const harness = await createCoreHarness({ engines: [first, second] });
  const { ctx } = await harness.open();
  const states = () =>
    harness.catalog.find("m", ctx.principal)?.room.deployments.map(({ ejection }) => ejection.state.state);
  return { ...harness, first, second, states };
}

describe("failed tries", () => {
  it.each([
    ["upstream_error", "ejected"],
    ["timeout", "ejected"],
    ["overloaded", "ejected"],
    // The engine holds its keys, and says for how long.
    ["unauthorized", "ready"],
    ["forbidden", "ready"],
    ["bad_input", "ready"],
  ] as const satisfies (readonly [EngineErrorCode, string])[])(
    "6 times %s leave the deployment %s (REL-9)",
    async (code, state) => {
      const { core, open, first, second, states } = await startCore();
      for (let sent = 0; sent < requests; sent++) {
        const answering = core.createChatCompletion(chat(), (await open()).ctx).catch(() => {});
        // After the fifth failure in a row the first deployment gets no more requests.
        if (states()?.[0] === "ready") (await first.run(sent)).fail(new EngineError(code, "failed"));
        if (code !== "bad_input") (await second.run(sent)).answer("Here.");
        await answering;
      }
      expect(states()).toEqual([state, "ready"]);
    },
  );
});
