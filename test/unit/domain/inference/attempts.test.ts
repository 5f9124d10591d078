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

describe("Attempts", () => {
  it.each([
    ["upstream_error", "ejected"],
    ["timeout", "ejected"],
    ["overloaded", "ejected"],
    // The engine itself pauses the rejected key, so the deployment is not ejected.
    ["unauthorized", "ready"],
    ["forbidden", "ready"],
    ["bad_input", "ready"],
  ] as const satisfies (readonly [EngineErrorCode, string])[])(
    "after 6 failures with %s the deployment is %s (REL-9)",
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

  it("an overloaded deployment whose error has a wait (Retry-After) gets no requests during it", async () => {
    const { core, open, first, second, states, clock } = await startCore();
    const overloaded = new EngineError("overloaded", "503", { retryAfterMs: 30_000 });
    let sent = 0;
    let failed = 0;
    const answer = async (): Promise<string> => {
      const answering = core.createChatCompletion(chat(), (await open()).ctx);
      if (states()?.[0] === "ready") (await first.run(failed++)).fail(overloaded);
      (await second.run(sent++)).answer("Here.");
      return (await answering).head.deployment;
    };
    expect(await answer()).toBe("m/1");
    expect(states()).toEqual(["cooling", "ready"]);
    clock.advance(29_000);
    expect(await answer()).toBe("m/1");
    expect(first.runs).toHaveLength(1);
    clock.advance(1_000);
    expect(await answer()).toBe("m/1");
    expect(first.runs).toHaveLength(2);
  });
});
