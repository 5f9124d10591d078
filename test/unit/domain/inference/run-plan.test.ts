import { describe, expect, it } from "vitest";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import type { Capabilities, GenerateRequest } from "../../../../src/domain/engine/engine.js";
import { RunPlan } from "../../../../src/domain/inference/chat-request.js";
import { caps } from "../../../support/capabilities.js";

/** A request for two choices that needs log probabilities; its maximum length is the deployment's. */
const build = ({ logprobs, maxOutput }: Capabilities): readonly GenerateRequest[] => {
  if (logprobs === 0) throw new ServiceError("unsupported_parameter", "no log probabilities", { param: "logprobs" });
  return [
    {
      requestId: "req_1",
      input: { prompt: "Hi" },
      n: 2,
      seed: 5n,
      maxTokens: maxOutput,
      stop: [],
      queueMs: 0,
      cacheKey: "default",
      deltas: "each",
    },
  ];
};
const unable = caps({ logprobs: 0 });
const short = caps({ maxOutput: 10 });
const long = caps({ maxOutput: 20 });

describe("RunPlan", () => {
  it("builds the request for the deployment that runs it", () => {
    const plan = new RunPlan(build, [short, long]);
    const [prompt] = plan.prompts;
    if (prompt === undefined) throw new Error("a plan has a prompt");
    expect([short, long].map((deployed) => plan.requestOf(prompt, deployed).maxTokens)).toEqual([10, 20]);
  });

  it("excludes a deployment that cannot run the request, and rejects a request that no deployment can run", () => {
    const plan = new RunPlan(build, [unable, short]);
    expect([unable, short].map((deployed) => plan.can(deployed))).toEqual([false, true]);
    expect(() => new RunPlan(build, [unable, caps({ logprobs: 0 })])).toThrow("no log probabilities");
  });

  it("runs the choices one by one unless every deployment can generate several choices in one run (CHAT-3)", () => {
    const single = caps({ nativeN: false });
    expect(new RunPlan(build, [short, long]).prompts.map(({ request }) => request.n)).toEqual([2]);
    const plan = new RunPlan(build, [short, single]);
    expect(
      plan.prompts.map(({ base, request, countsPrompt }) => [base, request.n, request.seed, countsPrompt]),
    ).toEqual([
      [0, 1, 5n, true],
      [1, 1, 6n, false],
    ]);
    const second = plan.prompts[1];
    expect(second && plan.requestOf(second, single)).toMatchObject({ n: 1, seed: 6n, maxTokens: 4096 });
  });

  it("throws errors other than a ServiceError", () => {
    const broken = (): never => {
      throw new TypeError("a bug");
    };
    expect(() => new RunPlan(broken, [short, long])).toThrow(TypeError);
  });
});
